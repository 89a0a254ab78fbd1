//! Functions that exporters write out in many nodes, found again: normalisations, activations,
//! rotary positions, attention. What nothing reads any more is left out.

use std::collections::{HashMap, HashSet};

use super::proto::{Attribute, Node};

/// A written-out function: `?x` is a value, `$w` a constant, `#` any constant, `*` anything, `~` means that ops on
/// each element may stand before.
#[derive(Debug, Clone)]
enum Pattern {
    Value(String),
    Constant(Option<String>),
    Anything,
    Op(Vec<String>, Vec<Pattern>),
    Behind(Box<Pattern>),
}

/// The domain of what stands for a written-out function.
pub(super) const FOUND: &str = "tidegate";

/// Ops on each element that may stand between attention's scores, softmax and values.
const ON_SCORES: &[&str] =
    &["Add", "Sub", "Mul", "Div", "Where", "Cast", "Clip", "Dropout", "Identity"];

/// A function's name, its operands, and how it is written out.
type Rule = (&'static str, &'static [&'static str], Pattern);

type Bound = Vec<(String, String)>;

fn parse(text: &mut &str) -> Pattern {
    *text = text.trim_start_matches([' ', ',']);
    let taken = |text: &mut &str, more: fn(char) -> bool| {
        let end = text.find(|c| !more(c)).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        *text = rest;
        word.to_string()
    };
    let rest = &text[text.len().min(1)..];
    match text.chars().next() {
        Some('?') => {
            *text = rest;
            Pattern::Value(taken(text, |c| c.is_ascii_lowercase()))
        }
        Some('$') => {
            *text = rest;
            Pattern::Constant(Some(taken(text, |c| c.is_ascii_lowercase())))
        }
        Some('#') => {
            *text = rest;
            Pattern::Constant(None)
        }
        Some('*') => {
            *text = rest;
            Pattern::Anything
        }
        Some('~') => {
            *text = rest;
            Pattern::Behind(Box::new(parse(text)))
        }
        _ => {
            let names = taken(text, |c| c.is_alphanumeric() || c == '|');
            let names = names.split('|').map(str::to_string).collect();
            *text = text.strip_prefix('(').unwrap_or(text);
            let mut operands = Vec::new();
            while !text.is_empty() && !text.starts_with(')') {
                operands.push(parse(text));
            }
            *text = text.strip_prefix(')').unwrap_or(text);
            Pattern::Op(names, operands)
        }
    }
}

/// All written-out functions that are known; the longer ones first.
fn rules(fuses_attention: bool) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    let mut add = |name, operands, text: &str| {
        rules.push((name, operands, parse(&mut &*text)));
    };
    if fuses_attention {
        add("FusedAttention", &["q", "k", "v"], "MatMul(~Softmax(~MatMul(?q, ?k)), ?v)");
    }
    let turned = "Concat(Neg(Slice|Split(?x)), Slice|Split(?x))";
    add("Rotary", &["x"], &format!("Add(Mul(?x, *), Mul({turned}, *))"));
    let centred = "Sub(?x, ReduceMean(?x))";
    for (name, x) in [("LayerNorm", centred), ("RmsNorm", "?x")] {
        for square in [format!("Pow({x}, #)"), format!("Mul({x}, {x})")] {
            let root = format!("Add(ReduceMean({square}), #)");
            for norm in [
                format!("Div({x}, Sqrt({root}))"),
                format!("Mul({x}, Reciprocal(Sqrt({root})))"),
                format!("Mul({x}, Div(#, Sqrt({root})))"),
                format!("Mul({x}, Pow({root}, #))"),
            ] {
                add(name, &["x", "w", "b"], &format!("Add(Mul({norm}, $w), $b)"));
                add(name, &["x", "w"], &format!("Mul({norm}, $w)"));
                add(name, &["x", "w"], &format!("Mul({norm}, Add($w, #))"));
                add(name, &["x"], &norm);
            }
        }
    }
    let error = "Add(Erf(Mul|Div(?x, #)), #)";
    let cube = |cube| format!("Add(Tanh(Mul(Add(?x, Mul({cube}, #)), #)), #)");
    let cubes = ["Pow(?x, #)", "Mul(?x, Mul(?x, ?x))"].map(cube);
    let other = "Add(Tanh(Mul(Mul(?x, #), Add(Mul(Mul(?x, #), ?x), #))), #)";
    for (gate, name) in [
        (error, "Gelu"),
        (&cubes[0], "GeluInSteps"),
        (&cubes[1], "GeluInSteps"),
        (other, "GeluInSteps"),
    ] {
        add(name, &["x"], &format!("Mul(Mul(?x, {gate}), #)"));
        add(name, &["x"], &format!("Mul(Mul(?x, #), {gate})"));
        add(name, &["x"], &format!("Mul(?x, Mul({gate}, #))"));
    }
    add("Silu", &["x"], "Mul(?x, Sigmoid(?x))");
    add("Silu", &["x"], "Mul(?x, Sigmoid(Mul(?x, #)))");
    add("HardSwish", &["x"], "Mul(?x, HardSigmoid(?x))");
    add("HardSwish", &["x"], "Div(Mul(?x, Clip(Add(?x, #))), #)");
    add("HardSwish", &["x"], "Mul(?x, Div(Clip(Add(?x, #)), #))");
    add("Mish", &["x"], "Mul(?x, Tanh(Softplus(?x)))");
    add("HardSigmoid", &["x"], "Div(Clip(Add(?x, #)), #)");
    add("Linear", &["x", "w", "b"], "Add(MatMul(?x, $w), $b)");
    rules
}

struct Search<'a> {
    nodes: &'a [Node],
    /// The node that makes a value.
    makers: HashMap<&'a str, usize>,
    constants: &'a HashSet<String>,
    /// What depends on a parameter that an op reads.
    trained: HashSet<&'a str>,
}

impl<'a> Search<'a> {
    fn maker(&self, name: &str) -> Option<&'a Node> {
        self.makers.get(name).map(|index| &self.nodes[*index])
    }

    /// The value that a name stands for, behind copies of it.
    fn behind<'b>(&self, mut name: &'b str) -> &'b str
    where
        'a: 'b,
    {
        for _ in 0..8 {
            match self.maker(name) {
                Some(node) if matches!(node.op_type.as_str(), "Identity" | "Cast") => {
                    name = node.input.first().map_or(name, String::as_str);
                }
                _ => break,
            }
        }
        name
    }

    fn fits(&self, pattern: &Pattern, name: &str, bound: &mut Bound, depth: usize) -> bool {
        match pattern {
            Pattern::Value(variable) | Pattern::Constant(Some(variable)) => {
                let name = self.behind(name);
                let constant = matches!(pattern, Pattern::Constant(_));
                if constant != self.constants.contains(name) {
                    return false;
                }
                match bound.iter().find(|(other, _)| other == variable) {
                    Some((_, other)) => other == name,
                    None => {
                        bound.push((variable.clone(), name.to_string()));
                        true
                    }
                }
            }
            Pattern::Anything => true,
            Pattern::Constant(None) => self.constants.contains(self.behind(name)),
            Pattern::Behind(inner) => {
                let so_far = bound.len();
                if self.fits(inner, name, bound, depth) {
                    return true;
                }
                bound.truncate(so_far);
                let Some(node) = self.maker(name).filter(|_| depth < 8) else { return false };
                let passes = ON_SCORES.contains(&node.op_type.as_str());
                let found = node.input.iter().take(3).position(|input| {
                    bound.truncate(so_far);
                    passes && self.fits(pattern, input, bound, depth + 1)
                });
                // What is beside must not be trained: fused attention has no gradient for it.
                found.is_some_and(|found| {
                    // A condition has none anyway.
                    let first = usize::from(node.op_type == "Where");
                    let mut beside = node.input.iter().enumerate().skip(first);
                    beside.all(|(i, name)| i == found || !self.trained.contains(name.as_str()))
                })
            }
            Pattern::Op(names, operands) => {
                let makers = [name, self.behind(name)].map(|name| self.maker(name));
                let node = makers.into_iter().flatten().find(|node| names.contains(&node.op_type));
                let Some(node) = node else { return false };
                if node.input.len() < operands.len() {
                    return false;
                }
                if node.op_type == "ReduceMean" {
                    bound.retain(|(variable, _)| variable != "!axes");
                    bound.push(("!axes".to_string(), node.output[0].clone()));
                }
                let swaps = operands.len() == 2 && matches!(node.op_type.as_str(), "Add" | "Mul");
                let orders: &[[usize; 2]] = if swaps { &[[0, 1], [1, 0]] } else { &[[0, 1]] };
                let before = bound.clone();
                orders.iter().any(|order| {
                    bound.clone_from(&before);
                    operands.iter().enumerate().all(|(index, operand)| {
                        let place = order.get(index).copied().unwrap_or(index);
                        self.fits(operand, &node.input[place], bound, depth)
                    })
                })
            }
        }
    }

    /// What a scale is of.
    fn unscaled<'b>(&'b self, name: &'b str) -> &'b str {
        let Some(node) = self.maker(name) else { return name };
        match (node.op_type.as_str(), node.input.as_slice()) {
            ("Mul", [a, b]) if self.constants.contains(self.behind(a)) => b,
            ("Mul" | "Div", [a, b]) if self.constants.contains(self.behind(b)) => a,
            _ => name,
        }
    }

    fn made_by<'b>(&'b self, name: &'b str, op: &str) -> Option<&'b Node> {
        self.maker(name).filter(|node| node.op_type == op && !node.input.is_empty())
    }

    /// What is repeated for the heads that share it.
    fn unrepeated<'b>(&'b self, name: &'b str) -> &'b str {
        let inner = (self.made_by(name, "Reshape"))
            .and_then(|node| self.made_by(&node.input[0], "Expand"))
            .and_then(|node| self.made_by(&node.input[0], "Unsqueeze"));
        inner.map_or(name, |node| &node.input[0])
    }

    /// Keys before they are turned to be multiplied with, and whether they were.
    fn keys<'b>(&'b self, name: &'b str) -> (&'b str, bool) {
        let order = |node: &Node| {
            let order = node.attribute.iter().find(|attribute| attribute.name == "perm");
            order.map(|order| order.ints.clone()).unwrap_or_default()
        };
        let name = self.unscaled(name);
        let Some(turned) = self.made_by(name, "Transpose") else {
            let inner = (self.made_by(name, "Reshape"))
                .and_then(|node| self.made_by(&node.input[0], "Transpose"))
                .filter(|node| order(node) == [0, 2, 1])
                .and_then(|node| self.made_by(&node.input[0], "Reshape"));
            return match inner {
                Some(node) => {
                    let whole = node.output.first().map_or(name, String::as_str);
                    let shared = self.unrepeated(whole);
                    let own = self.unrepeated(self.unscaled(&node.input[0]));
                    (if shared == whole { own } else { shared }, true)
                }
                None => (name, false),
            };
        };
        match order(turned).as_slice() {
            [0, 1, 3, 2] => (self.unrepeated(self.unscaled(&turned.input[0])), true),
            _ => (name, false),
        }
    }

    /// Whether a mask that hides what comes later is among what a value depends on.
    fn hides_later(&self, from: &str, until: &[&str]) -> bool {
        let (mut open, mut seen) = (vec![from], HashSet::new());
        while let Some(name) = open.pop() {
            if until.contains(&name) || !seen.insert(name) || seen.len() > 200 {
                continue;
            }
            let Some(node) = self.maker(name) else { continue };
            if matches!(
                node.op_type.as_str(),
                "Trilu" | "LessOrEqual" | "GreaterOrEqual" | "Less" | "Greater"
            ) {
                return true;
            }
            open.extend(node.input.iter().map(String::as_str));
        }
        false
    }
}

fn number(name: &str, i: i64) -> Attribute {
    Attribute { name: name.to_string(), i: Some(i), ..Attribute::default() }
}

/// The nodes that the outputs need, with written-out functions as one node each.
pub(super) fn found(
    nodes: &[Node],
    outputs: &[String],
    constants: &HashSet<String>,
    parameters: &HashSet<String>,
    fuses_attention: bool,
) -> Vec<Node> {
    let rules = rules(fuses_attention);
    let mut makers = HashMap::new();
    let mut trained: HashSet<&str> = HashSet::new();
    for (index, node) in nodes.iter().enumerate() {
        makers.extend(node.output.iter().map(|output| (output.as_str(), index)));
        // What an op reads by rows or multiplies with is trained; what is added may be a mask.
        let own = matches!(node.op_type.as_str(), "Gather" | "MatMul" | "Gemm" | "Conv");
        let is =
            |name: &String| trained.contains(name.as_str()) || (own && parameters.contains(name));
        let is_test = matches!(node.op_type.as_str(), "Shape" | "Equal" | "Less" | "Greater");
        if !is_test && node.input.iter().any(is) {
            trained.extend(node.output.iter().map(String::as_str));
        }
    }
    let search = Search { nodes, makers, constants, trained };
    let mut needed: HashSet<String> = outputs.iter().cloned().collect();
    let mut kept = Vec::new();
    for node in nodes.iter().rev() {
        if !node.output.iter().any(|output| needed.contains(output)) {
            continue;
        }
        let one = node.output.len() == 1;
        let found = rules.iter().filter(|_| one).find_map(|(name, operands, pattern)| {
            let mut bound = Vec::new();
            let fits =
                root_fits(pattern, node) && search.fits(pattern, &node.output[0], &mut bound, 0);
            fits.then(|| search.fused(node, name, operands, &bound))
        });
        let node = found.unwrap_or_else(|| node.clone());
        needed.extend(node.input.iter().cloned());
        let graphs = node.attribute.iter().filter_map(|attribute| attribute.g.as_ref());
        for graph in graphs {
            needed.extend(graph.node.iter().flat_map(|node| node.input.iter().cloned()));
            needed.extend(graph.output.iter().map(|output| output.name.clone()));
        }
        kept.push(node);
    }
    kept.reverse();
    kept
}

fn root_fits(pattern: &Pattern, node: &Node) -> bool {
    matches!(pattern, Pattern::Op(names, _) if names.contains(&node.op_type))
}

impl Search<'_> {
    fn fused(&self, root: &Node, name: &str, operands: &[&str], bound: &Bound) -> Node {
        let of = |variable: &str| {
            bound.iter().find(|(other, _)| other == variable).map(|(_, name)| name.as_str())
        };
        let mut input: Vec<String> =
            operands.iter().filter_map(|operand| of(operand)).map(str::to_string).collect();
        let mut attribute = Vec::new();
        if let Some(mean) = of("!axes").and_then(|mean| self.maker(mean)) {
            attribute.extend(mean.attribute.iter().filter(|a| a.name == "axes").cloned());
            input.resize(3, String::new());
            input.extend(mean.input.get(1).cloned());
        }
        if name == "FusedAttention" {
            let (k, turned) = self.keys(&input[1]);
            let causal = self.hides_later(&root.input[0], &[&input[0], &input[1]]);
            attribute = vec![number("turned", turned.into()), number("causal", causal.into())];
            input = vec![
                self.unscaled(&input[0]).to_string(),
                k.to_string(),
                self.unrepeated(&input[2]).to_string(),
            ];
        }
        Node {
            op_type: name.to_string(),
            domain: FOUND.to_string(),
            input,
            attribute,
            ..root.clone()
        }
    }
}
