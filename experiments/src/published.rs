//! What papers print for the questions that commands answer, to be shown beside the answers.

/// Command, method, network and machine, the figure, and where a paper prints it.
type Published = ([&'static str; 4], &'static str, &'static str);

const CSWAP: &str = "CSWAP+, section 6.2, figures 8(a) and 9(a)";
const COMET: &str = "COMET, table 1";

#[rustfmt::skip]
const ALL: &[Published] = &[
    (["epochs", "cswap+", "vgg16", "cswap-v100"], "batch 128: 5 layers compressed at epoch 0, 9 of 12 at epoch 48", CSWAP),
    (["epochs", "cswap+", "mobilenet-v1", "cswap-v100"], "batch 128: the number of compressed layers hardly changes", CSWAP),
    (["largest", "comet", "alexnet", "comet-v100"], "2048 (512 in core); inputs of convolutions 407 MB -> 30 MB, 13.5x, at batch 128", COMET),
    (["largest", "comet", "vgg16", "comet-v100"], "256 (64 in core); inputs of convolutions 6.91 GB -> 0.62 GB, 11.1x, at batch 128", COMET),
    (["largest", "comet", "resnet18", "comet-v100"], "1024 (256 in core); inputs of convolutions 1.71 GB -> 0.16 GB, 10.7x, at batch 128", COMET),
    (["largest", "comet", "resnet50", "comet-v100"], "512 (128 in core); inputs of convolutions 5.14 GB -> 0.46 GB, 11.0x, at batch 128", COMET),
];

/// What a paper prints for a method's answer to a command, in a line; nothing where none does.
pub fn published_figures(command: &str, method: &str, network: &str, machine: &str) -> String {
    let asked = [command, method, network, machine];
    let lines = ALL.iter().filter(|(of, ..)| *of == asked);
    lines.map(|(_, figure, source)| format!("published: {figure} ({source})\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_of_what_there_is() {
        for ([_, method, network, machine], ..) in ALL {
            assert!(planner::methods::by_name(method).is_some(), "{method}");
            assert!(networks::networks().any(|info| info.name == *network), "{network}");
            assert!(scenarios::machine(machine).is_ok(), "{machine}");
        }
        assert_eq!(published_figures("epochs", "cswap", "vgg16", "cswap-v100"), "");
    }
}
