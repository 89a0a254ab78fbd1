//! `tidegate sample`

use std::path::PathBuf;
use std::time::{Duration, Instant};

use codecs::synthetic::Recipe;
use codecs::{Codec, CodecId, Layout, TensorView};
use planner::{Progress, Watch};
use results::{CodecSample, write_parquet};
use schema::{Bytes, Dtype, Fidelity, Nanos};

use crate::exit::{Exit, OrExit, Result, WithExit, usage};
use crate::output::print;
use crate::progress::Bar;

/// Take samples on this machine, from which `fit` makes models
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Time codecs on synthetic tensors of many sizes and ratios
    Codecs(CodecsArgs),
}

#[derive(clap::Args)]
struct CodecsArgs {
    /// Where to write the samples (.parquet)
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    /// The codecs, such as zvc,zfp:8
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "CODECS",
        default_value = "zvc,rle,csr,lz4,zfp:8,sz:1e-3"
    )]
    codecs: Vec<CodecId>,

    /// Sizes of the tensors; CSWAP+ takes 20MB to 2000MB
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "SIZES",
        default_value = "2MB,4MB,6MB,8MB,12MB,16MB,24MB,32MB"
    )]
    sizes: Vec<Bytes>,

    /// Shares of zeros from 20% to 90%, so many
    #[arg(long, value_name = "COUNT", default_value_t = 15, value_parser = clap::value_parser!(u32).range(2..=1000))]
    shares: u32,

    /// Runs of which the fastest counts: what else the machine does only adds to times
    #[arg(long, value_name = "COUNT", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,

    /// Threads that a codec works with
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
}

/// The shares of zeros that CSWAP+ (section 6.4) takes samples of.
const SPARSITY: [f64; 2] = [0.2, 0.9];

/// Takes samples and writes them.
pub fn run(args: &Args) -> Result {
    let What::Codecs(args) = &args.what;
    if args.output.extension().is_none_or(|extension| extension != "parquet") {
        return Err(usage("samples are written as Parquet: name the --output so"));
    }
    if args.sizes.iter().any(|size| !(4096..=1 << 32).contains(&size.0)) {
        return Err(usage("--sizes: a tensor has 4096 bytes to 4 GiB"));
    }
    let codecs =
        args.codecs.iter().map(|id| codecs::codec(*id)).collect::<std::result::Result<Vec<_>, _>>();
    let codecs = codecs.or_exit(Exit::Usage)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(args.threads as usize).build();
    let pool = pool.or_exit(Exit::Failed)?;
    let is_fixed =
        |codec: &dyn Codec| matches!(codec.fidelity(), codecs::Fidelity::FixedRate { .. });
    let any_fixed = codecs.iter().any(|codec| is_fixed(codec.as_ref()));
    let bar = Bar::new("sample");
    let tensors = args.sizes.len() as u64 * u64::from(args.shares);
    let mut samples = Vec::new();
    for (index, (size, share)) in (args.sizes.iter())
        .flat_map(|size| (0..args.shares).map(move |share| (*size, share)))
        .enumerate()
    {
        let part = f64::from(share) / f64::from(args.shares - 1);
        let sparsity = SPARSITY[0] + part * (SPARSITY[1] - SPARSITY[0]);
        let tensor = Tensor::new(size, sparsity, index as u64)?;
        // A codec of fixed rate is one for dense tensors. Blocks of zeros take it less time, which
        // the ratio does not tell.
        let dense = if any_fixed { Some(Tensor::new(size, 0.0, index as u64)?) } else { None };
        for codec in &codecs {
            let progress = Progress { phase: "codecs", done: index as u64, of: tensors };
            if !bar.go_on(progress) {
                let error = anyhow::anyhow!("interrupted: nothing was written");
                return Err(WithExit { exit: Exit::Interrupted, error });
            }
            let tensor = dense.as_ref().filter(|_| is_fixed(codec.as_ref())).unwrap_or(&tensor);
            samples.push(pool.install(|| tensor.sample(codec.as_ref(), args))?);
        }
    }
    drop(bar);
    write_parquet(&samples, &args.output).or_exit(Exit::Failed)?;
    print(format!("{} samples of {} codecs on {}\n", samples.len(), codecs.len(), device()))
}

/// A synthetic tensor.
struct Tensor {
    layout: Layout,
    sparsity: f64,
    bytes: Vec<u8>,
}

impl Tensor {
    fn new(size: Bytes, sparsity: f64, seed: u64) -> Result<Self> {
        // Rows as in a feature map, for codecs that look at more than one dimension.
        let shape = [(size.0 / 256).max(1) as usize, 64];
        let layout = Layout::new(Dtype::F32, &shape).or_exit(Exit::Usage)?;
        let recipe = Recipe { layout: layout.clone(), sparsity, smoothness: 0.0, seed };
        Ok(Self { bytes: recipe.bytes().or_exit(Exit::Usage)?, layout, sparsity })
    }

    fn sample(&self, codec: &dyn Codec, args: &CodecsArgs) -> Result<CodecSample> {
        let input = TensorView::new(&self.layout, &self.bytes).or_exit(Exit::Failed)?;
        // Pages that nobody has touched yet would cost the first run.
        let mut payload = vec![0xff; codec.worst_case(&self.layout)];
        let mut restored = vec![0xff; self.bytes.len()];
        let (mut length, mut compress, mut decompress) = (0, Vec::new(), Vec::new());
        // One more, whose times do not count.
        for run in 0..=args.runs {
            let begin = Instant::now();
            length = codec.compress(input, &mut payload).or_exit(Exit::Failed)?;
            let compressing = begin.elapsed();
            let begin = Instant::now();
            codec
                .decompress(&payload[..length], &self.layout, &mut restored)
                .or_exit(Exit::Failed)?;
            let decompressing = begin.elapsed();
            if run > 0 {
                compress.push(compressing);
                decompress.push(decompressing);
            }
        }
        let (parameter, fidelity) = match (codec.id(), codec.fidelity()) {
            (_, codecs::Fidelity::Lossless) => (None, Fidelity::Lossless),
            (_, codecs::Fidelity::Bounded { max_abs_error }) => {
                (Some(max_abs_error), Fidelity::ErrorBounded)
            }
            (_, codecs::Fidelity::FixedRate { bits_per_value }) => {
                (Some(bits_per_value), Fidelity::FixedRate)
            }
        };
        Ok(CodecSample {
            device: device(),
            codec: codec.id().name().into(),
            parameter,
            fidelity: name(fidelity).into(),
            dtype: "f32".into(),
            threads: args.threads,
            runs: args.runs,
            sparsity: self.sparsity,
            bytes: Bytes(self.bytes.len() as u64),
            compressed: Bytes(length as u64),
            compress: fastest(&compress),
            decompress: fastest(&decompress),
        })
    }
}

/// As it stands in samples and documents.
pub fn name(fidelity: Fidelity) -> &'static str {
    match fidelity {
        Fidelity::Lossless => "lossless",
        Fidelity::FixedRate => "fixed_rate",
        Fidelity::ErrorBounded => "error_bounded",
    }
}

fn fastest(times: &[Duration]) -> Nanos {
    Nanos(times.iter().min().map_or(0, |time| time.as_nanos() as u64).max(1))
}

/// What runs this: the processor's name where the system tells it.
fn device() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or_else(|| std::env::consts::ARCH.into(), |(_, name)| name.trim().into())
}
