use profiler::import::{ImportOptions, import};
use std::path::Path;
fn main() {
    let mut args = std::env::args().skip(1);
    let file = args.next().unwrap();
    let mut o = ImportOptions::default();
    if let Some(t) = args.next() {
        if let Ok(n) = t.parse() {
            o.step = Some(n)
        } else {
            o.times = Some((std::fs::read(&t).unwrap(), t.into()))
        }
    }
    let t0 = std::time::Instant::now();
    let r = import(&std::fs::read(&file).unwrap(), Path::new(&file), None, &o).unwrap();
    eprintln!("{:?}", t0.elapsed());
    println!("{:?}", r.figures);
    let Some(t) = r.trace else { return };
    for n in &t.provenance.notes {
        println!("note: {n}");
    }
    let p = simulator::in_core(&t);
    println!(
        "{} ops {} tensors {} {:?} rerun {} device {}",
        t.title(),
        t.ops.len(),
        t.tensors.len(),
        p,
        t.ops.iter().filter(|o| o.rerunnable).count(),
        t.provenance.device
    );
    if std::env::var("DUMP").is_ok() {
        for (i, op) in t.ops.iter().enumerate() {
            let name = |ids: &[schema::TensorId]| {
                ids.iter()
                    .map(|id| format!("{}:{}", id.0, t.tensors[id.index()].bytes.0))
                    .collect::<Vec<_>>()
                    .join(" ")
            };
            println!(
                "{i} {} {:?} {} r[{}] w[{}] f[{}] ip{} ws {} {}",
                op.name,
                op.phase,
                op.duration.0,
                name(&op.reads),
                name(&op.writes),
                name(&op.frees),
                op.in_place.len(),
                op.workspace.0,
                op.rerunnable
            );
        }
    }
}
