//! Small DTR logs, written by hand, and the traces that they make.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::{in_core_peak, text_of};
use profiler::import::{Format, ImportOptions, InPlaceOps, import_trace};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A log in shorthand, one instruction a line:
/// `const a 10`, `call f(a,b)=c:8,d@0 5` (a new result of 8 bytes, a view of argument 0, 5 ns),
/// `mutate f(a,b)[0] 5`, `copy b a`, `from b a`, `release a`, `note START`.
fn log(shorthand: &str) -> String {
    let list = |text: &str| -> Vec<String> {
        text.split(',').filter(|t| !t.is_empty()).map(str::to_string).collect()
    };
    let mut log = String::new();
    let mut put = |instruction: &str, mut fields: Value| {
        fields["INSTRUCTION"] = instruction.into();
        log += &format!("{fields}\n");
    };
    for line in shorthand.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["const", name, bytes] => {
                put("CONSTANT", json!({"NAME": name}));
                put("MEMORY", json!({"NAME": name, "MEMORY": bytes}));
            }
            ["call", call, time] => {
                let (name, rest) = call.split_once('(').expect("a call");
                let (args, results) = rest.split_once(")=").expect("results");
                let results = list(results);
                let names: Vec<_> = results.iter().map(|r| r.split([':', '@']).next()).collect();
                let (args, results) = (list(args), results.iter().zip(&names));
                put("CALL", json!({"NAME": name, "ARGS": args, "RESULT": names, "TIME": time}));
                for (result, name) in results {
                    let bytes = result.split_once(':').map_or("0", |(_, bytes)| bytes);
                    let alias = result.split_once('@').map_or("-1", |(_, alias)| alias);
                    put("MEMORY", json!({"NAME": name, "MEMORY": bytes}));
                    put("ALIAS", json!({"NAME": name, "ALIAS": alias}));
                }
            }
            ["mutate", call, time] => {
                let (name, rest) = call.split_once('(').expect("a call");
                let (args, indices) = rest.split_once(")[").expect("indices");
                let indices: Value = format!("[{indices}").parse().expect("a list of numbers");
                let args = list(args);
                put("MUTATE", json!({"NAME": name, "ARGS": args, "MUTATE": indices, "TIME": time}));
            }
            ["copy", to, from] => put("COPY", json!({"DST": to, "SRC": from})),
            ["from", to, from] => put("COPY_FROM", json!({"DST": to, "SRC": from})),
            ["release", name] => put("RELEASE", json!({"NAME": name})),
            ["note", text] => put("ANNOTATE", json!({"ANNOTATION": text})),
            ref other => panic!("no shorthand {other:?}"),
        }
    }
    log
}

fn trace_with(shorthand: &str, in_place: InPlaceOps) -> String {
    let options = ImportOptions { in_place, ..ImportOptions::default() };
    let trace = import_trace(log(shorthand), Path::new("logs/small.dtr.jsonl"), None, &options);
    text_of(&trace.expect("the log is whole"))
}

fn trace(shorthand: &str) -> String {
    trace_with(shorthand, InPlaceOps::AsRecorded)
}

#[test]
fn what_comes_before_the_start_is_no_part_of_the_iteration() {
    let text = format!(
        "not even JSON\n{}",
        log("const a 1
             note START
             const a 10
             call relu(a)=b:20 7
             note BACKWARD
             call relu_backward(a,b,b)=c:30 8
             release b")
    );
    let options = ImportOptions {
        network: Some("named".into()),
        in_place: InPlaceOps::default(),
        ..ImportOptions::default()
    };
    let trace = import_trace(&text, Path::new("x.jsonl"), Some(Format::Dtr), &options);
    insta::assert_snapshot!(text_of(&trace.expect("the log is whole")));
}

#[test]
fn views_share_a_storage_until_the_last_of_them_goes() {
    insta::assert_snapshot!(trace(
        "note START
         const w 10
         call conv2d(w)=a:100 5
         call split_with_a_new_name(a)=v@0,u@0 0
         release a
         call mixed(v,w)=m:3,n@0 1
         release v
         release u
         call mm(n,m)=r:4 2
         release n
         note BACKWARD"
    ));
}

#[test]
fn a_mutation_leaves_other_names_the_old_version() {
    let shorthand = "note START
         call mm()=a:100 5
         copy saved a
         mutate relu_(a)[0] 1
         call use_new(a)=n:1 1
         call use_old(saved)=o:1 1
         release saved
         mutate add_(a,n)[0] 1
         const c 50
         mutate zero_(c)[0] 1
         note BACKWARD";
    insta::assert_snapshot!("mutation_as_recorded", trace(shorthand));
    // Only `add_` writes over a tensor that nobody needs any more and that an op made.
    insta::assert_snapshot!("mutation_alias", trace_with(shorthand, InPlaceOps::Alias));
}

#[test]
fn a_mutation_of_two_names_of_one_storage_makes_two() {
    insta::assert_snapshot!(trace_with(
        "note START
         call mm()=a:100,other:7 5
         copy b a
         mutate swap_(a,b,other)[0,1,2] 1
         release a
         release b
         note BACKWARD",
        InPlaceOps::Alias
    ));
}

#[test]
fn a_name_that_goes_over_to_another_tensor_drops_its_own_first() {
    insta::assert_snapshot!(trace(
        "note START
         call mm()=a:100 5
         call mm()=b:200 5
         from a b
         from a a
         call relu(a)=c:1 1
         release b
         call relu(a)=d:1 1
         release a
         note BACKWARD"
    ));
}

#[test]
fn releases_of_names_from_before_the_log_are_counted() {
    insta::assert_snapshot!(trace(
        "note START
         release gone
         call mm()=a:100 5
         release a
         release a
         note STEP"
    ));
}

#[test]
fn constants_count_in_full_wherever_they_come() {
    insta::assert_snapshot!(trace(
        "const early 1
         release early
         const w 10
         call relu(w)=a:100 5
         const mid 20
         const short 30
         release short
         release w
         call add(a,mid)=b:100 5
         release a
         release mid
         const late 40
         const late_and_short 50
         release late_and_short
         note BACKWARD
         note BACKWARD"
    ));
}

/// A consistent log, made one instruction after another, and what replaying it on the way gives.
/// Constants come at the start only: a trace holds later ones until the next op.
#[derive(Debug)]
struct Walk {
    shorthand: String,
    names: BTreeMap<String, usize>,
    /// Bytes and names of each storage.
    storages: Vec<(u64, usize)>,
    live: u64,
    peak: u64,
    next_name: usize,
}

impl Walk {
    fn new() -> Self {
        let (names, storages) = (BTreeMap::new(), Vec::new());
        let mut walk =
            Self { shorthand: String::new(), names, storages, live: 0, peak: 0, next_name: 0 };
        let (weight, first) = (walk.new_name(), walk.new_name());
        walk.shorthand = format!("const {weight} 9\ncall f({weight})={first}:7 1\n");
        walk.allocate(weight, 9);
        walk.allocate(first, 7);
        walk
    }

    fn new_name(&mut self) -> String {
        self.next_name += 1;
        format!("n{}", self.next_name)
    }

    fn allocate(&mut self, name: String, bytes: u64) {
        self.storages.push((bytes, 1));
        self.live += bytes;
        self.peak = self.peak.max(self.live);
        self.names.insert(name, self.storages.len() - 1);
    }

    fn share(&mut self, name: String, storage: usize) {
        self.storages[storage].1 += 1;
        self.names.insert(name, storage);
    }

    fn drop_reference(&mut self, storage: usize) {
        self.storages[storage].1 -= 1;
        if self.storages[storage].1 == 0 {
            self.live -= self.storages[storage].0;
        }
    }

    /// One more instruction, as the four numbers choose.
    fn step(&mut self, (kind, a, b, bytes): (u8, usize, usize, u64)) {
        if self.names.is_empty() {
            return;
        }
        let pick = |n: usize| {
            let (name, storage) = self.names.iter().nth(n % self.names.len()).expect("a name");
            (name.clone(), *storage)
        };
        let ((a, of_a), (b, of_b)) = (pick(a), pick(b));
        let line = match kind % 7 {
            0 | 1 => {
                let (result, view) = (self.new_name(), self.new_name());
                self.allocate(result.clone(), bytes);
                self.share(view.clone(), of_b);
                format!("call f({a},{b})={result}:{bytes},{view}@1 1")
            }
            2 => {
                // All new storages first, then the old ones lose their names.
                self.allocate(a.clone(), self.storages[of_a].0);
                if a != b {
                    self.allocate(b.clone(), self.storages[of_b].0);
                    self.drop_reference(of_b);
                }
                self.drop_reference(of_a);
                format!("mutate f_({a},{b})[{}] 1", if a == b { "0" } else { "1,0" })
            }
            3 => {
                let name = self.new_name();
                self.share(name.clone(), of_a);
                format!("copy {name} {a}")
            }
            4 => {
                self.share(a.clone(), of_b);
                self.drop_reference(of_a);
                format!("from {a} {b}")
            }
            _ => {
                self.names.remove(&a);
                self.drop_reference(of_a);
                format!("release {a}")
            }
        };
        self.shorthand.push_str(&line);
        self.shorthand.push('\n');
    }
}

proptest! {
    /// The trace's peak is that of the replay, for any log; taking over memory only lowers it.
    #[test]
    fn the_peak_is_that_of_the_replay(
        steps in prop::collection::vec((0u8..7, 0usize..50, 0usize..50, 0u64..100), 0..60)
    ) {
        let mut walk = Walk::new();
        steps.into_iter().for_each(|step| walk.step(step));
        let text = log(&walk.shorthand);
        let peak = |in_place| {
            let options = ImportOptions { in_place, ..ImportOptions::default() };
            let trace = import_trace(&text, Path::new("walk.dtr.jsonl"), Some(Format::Dtr), &options);
            in_core_peak(&trace.expect("the log is whole"))
        };
        prop_assert_eq!(peak(InPlaceOps::AsRecorded), walk.peak, "{}", walk.shorthand);
        prop_assert!(peak(InPlaceOps::Alias) <= walk.peak);
    }
}
