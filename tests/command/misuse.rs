//! Misspelt and misused commands, made of real ones at random: each is refused with what is wrong, and with
//! what to do about it.

use runtime::network::Random;

use crate::sandbox::Sandbox;

/// What is before a word says what it is: `~` a name, `#` a whole number, `=` another value, `@` a file that
/// must be there, `!` an option that must be there.
const COMMANDS: [&str; 21] = [
    "plan ~resnet18 --batch #4 !--machine ~titan-v --budget =100% --method ~swap-opt --dtype ~bf16 \
     --optimizer ~adam --evaluations #10 --format ~json",
    "plan ~resnet18-host !--machine ~titan-v --allow ~swap --in-place ~alias --host-budget =4GB",
    "compare ~resnet18-host !--machine ~titan-v+pcie5 --methods ~swap-all,in-core --budget =70%",
    "compare ~alexnet --batch #64 !--machine ~pooch-x86 --codecs ~zvc,lz4 --sparsity =50% --methods ~swap-all",
    "compare family:~u-shaped:ops=100 !--machine ~p100 --methods ~sqrt-n --count ~activations",
    "largest ~alexnet !--machine ~titan-v --budget =1GB --method ~swap-all --activation ~relu",
    "largest ~resnet18 --device --batch #16 !--machine ~titan-v --method ~swap-all --conventions ~pytorch",
    "explain ~resnet18 --batch #8 !--machine ~p100 --image #64 --format ~json",
    "compare ~alexnet --batch #8 !--machine ~v100-sxm !--ranks #4 --shard ~zero2 !--net-link ~nvlink2 --methods ~swap-all",
    "frontier ~resnet18-host !--machine ~titan-v --methods ~swap-all --budgets =100% --step =10%",
    "epochs ~alexnet --batch #64 !--machine ~titan-v --epochs =0..2 --method ~swap-all",
    "study ~smallest-gpu --list --format ~json",
    "study @study.toml !--output out --partition =1/4 --jobs #2",
    "list ~machines --format ~json",
    "schema ~timeline",
    "simulate @plan.json --machine ~titan-v",
    "verify @plan.json --trace ~resnet18-host",
    "report @plan.json !--output page",
    "export @timeline.json !--to ~svg !--output picture.svg --width #960",
    "import @tests/recordings/small.dtr.jsonl --from ~dtr --network small",
    "table tests/tables/weights.bf16 !--row-bytes =128B !--machine ~titan-v !--rows-per-lookup #4",
];

fn below(draws: &mut Random, end: usize) -> usize {
    (draws.next() % end as u64) as usize
}

fn of<'a>(draws: &mut Random, choices: &[&'a str]) -> &'a str {
    choices[below(draws, choices.len())]
}

/// The word with one letter swapped with the next, left out, written twice or another.
fn misspelt(draws: &mut Random, word: &str) -> String {
    let letters = word.char_indices().filter(|(_, c)| c.is_ascii_alphabetic());
    let letters: Vec<usize> = letters.map(|(at, _)| at).collect();
    loop {
        let at = letters[below(draws, letters.len())];
        let (before, letter, after) = (&word[..at], &word[at..=at], &word[at + 1..]);
        let wrong = match (below(draws, 4), after.chars().next()) {
            (0, Some(next)) => format!("{before}{next}{letter}{}", &after[1..]),
            (1, _) => format!("{before}{after}"),
            (2, _) => format!("{before}{letter}{letter}{after}"),
            _ => format!("{before}q{after}"),
        };
        if wrong != word {
            return wrong;
        }
    }
}

/// A command that is wrong, what its refusal has to name, and what it should suggest.
struct Misuse {
    command: Vec<String>,
    named: Vec<String>,
    suggested: Option<String>,
}

/// A word without what says what it is, which stands at its beginning or after a colon.
fn plain(word: &str) -> String {
    word.replacen(":~", ":", 1).trim_start_matches(['~', '#', '=', '@', '!']).to_string()
}

fn misuse(command: &str, draws: &mut Random) -> Option<Misuse> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let mut plains: Vec<String> = words.iter().map(|word| plain(word)).collect();
    let of_kind = |wanted: &dyn Fn(&str) -> bool| -> Vec<usize> {
        (1..words.len()).filter(|at| wanted(words[*at])).collect()
    };
    let is_list =
        |option: &str| ["--methods", "--codecs", "--allow", "--budgets"].contains(&option);
    let is_option = |word: &str| word.trim_start_matches('!').starts_with("--");
    let has_value = |at: usize| at + 1 < words.len() && !is_option(words[at + 1]);
    let kind = below(draws, 9);
    let places = match kind {
        0 | 1 => of_kind(&|word| word.contains('~')),
        2 => of_kind(&|word| word.starts_with('#')),
        3 => of_kind(&|word| word.starts_with('=')),
        4 => of_kind(&|word| word.starts_with('@')),
        5 => of_kind(&|word| word.starts_with('!')),
        6..=8 => of_kind(&is_option),
        _ => vec![0],
    };
    if places.is_empty() {
        return None;
    }
    let at = places[below(draws, places.len())];
    let old = plains[at].clone();
    // The option that the word is the value of.
    let option = Some(plains[at - 1].clone()).filter(|before| before.starts_with("--"));
    let mut named = Vec::from_iter(option);
    let mut suggested = None;
    match kind {
        0 | 1 => {
            let mark = words[at].find('~').expect("it has one") + 1;
            let (before, name) = (old[..mark - 1].to_string(), old[mark - 1..].to_string());
            let name_alone = name.split(':').next().expect("a part").to_string();
            let wrong = misspelt(draws, &name_alone);
            plains[at] = before + &name.replacen(&name_alone, &wrong, 1);
            named.push(wrong);
            suggested = Some(name_alone);
        }
        2 => plains[at] = of(draws, &["x", "1.5", "-3", "99999999999999999999"]).into(),
        3 => {
            plains[at] = of(draws, &["x", "-5%", "1/0", "%%"]).into();
            named.push("-5".into());
        }
        4 => {
            plains[at] = format!("absent-{}", old.replace('/', "-"));
            named = vec![plains[at].clone()];
        }
        5 => {
            plains.drain(at..at + 1 + usize::from(has_value(at)));
            named = vec![old];
        }
        6 => {
            plains[at] = format!("--{}", misspelt(draws, &old[2..]));
            named = vec![plains[at].clone()];
            suggested = Some(old);
        }
        7 if has_value(at) => {
            plains.drain(at..at + 2);
            plains.push(old.clone());
            named = vec![old];
        }
        8 if has_value(at) && !is_list(&old) => {
            plains.extend([old.clone(), plains[at + 1].clone()]);
            named = vec![old];
        }
        _ => return None,
    }
    Some(Misuse { command: plains, named, suggested })
}

#[test]
fn misspelt_and_misused_commands_are_refused_with_what_to_do() {
    let sandbox = Sandbox::new();
    sandbox.ok("plan resnet18-host -m titan-v -b 85% --method swap-all -o plan.json");
    sandbox.ok("simulate plan.json -o timeline.json");
    sandbox.write(
        "study.toml",
        "description = 'd'\n[[group]]\nnetworks = ['alexnet']\nbatches = [8]\nmachines = ['titan-v']\n\
         methods = ['in-core']\n",
    );
    for command in COMMANDS {
        let words: Vec<String> = command.split_whitespace().map(plain).collect();
        sandbox.ok(&words.join(" "));
    }
    let setting = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let cases = setting("TIDEGATE_CASES").unwrap_or(500);
    let seed = setting("TIDEGATE_SEED").unwrap_or(22);
    let (mut draws, mut wrong, mut refused) = (Random::new(seed), Vec::new(), 0);
    while refused < cases {
        let command = COMMANDS[below(&mut draws, COMMANDS.len())];
        let Some(misuse) = misuse(command, &mut draws) else { continue };
        refused += 1;
        let command = misuse.command.join(" ");
        let run = sandbox.run(&command);
        let said = &run.stderr;
        // Names that are put together are named and suggested by their parts.
        let says = |name: &String| {
            name.split([',', '+']).filter(|part| !part.is_empty()).any(|part| said.contains(part))
        };
        let names = misuse.named.is_empty() || misuse.named.iter().any(says);
        let suggests = misuse.suggested.as_ref().is_none_or(says);
        let remedies = [
            "did you mean",
            "similar",
            "possible values",
            "try '--help'",
            "write ",
            "name ",
            "state ",
            "see ",
            "leave ",
            "there are ",
            "take one of",
            "No such file",
        ];
        let remedy = remedies.iter().any(|remedy| said.contains(remedy));
        let is_error = said.starts_with("error: ") && !said.contains("panicked");
        if run.code != 2 || !is_error || !names || !suggests || !remedy {
            wrong.push(format!("[exit {}] $ tidegate {command}\n{said}", run.code));
        }
    }
    assert!(wrong.is_empty(), "seed {seed}: {} of {cases}:\n{}", wrong.len(), wrong.join("\n"));
}
