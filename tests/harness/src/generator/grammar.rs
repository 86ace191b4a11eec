//! The arguments of a command, written almost as in the documentation, and requests made from them.
//!
//! ```text
//! key:zset { NX | XX | GT | LT | CH | INCR } ( score member )+
//! ```
//!
//! | | |
//! |---|---|
//! | `NX`, `=` | the word itself |
//! | `value`, `key:list` | an atom: a random argument of that sort, see `atoms` |
//! | `[ … ]` | there or not |
//! | `< … \| … >` | one of these |
//! | `{ … \| … }` | options: some of these in any order, now and then the same one twice |
//! | `( … )+`, `( … )*`, `value+`, `value*` | one or more, none or more |
//! | `value^` | as often as what was repeated last |
//! | `#key:set` | how many keys, and the keys |
//!
//! Words and brackets are separated by spaces.

use super::Request;
use super::atoms::{Atom, Source};

/// A piece of a grammar.
#[derive(Debug)]
pub enum Node {
    Word(&'static str),
    Atom(Atom),
    Sequence(Vec<Node>),
    Optional(Box<Node>),
    OneOf(Vec<Node>),
    Options(Vec<Node>),
    Repeated { node: Box<Node>, least: usize },
    AsMany(Box<Node>),
    Counted(Box<Node>),
}

impl Node {
    /// Reads a grammar.
    ///
    /// # Panics
    /// If it is invalid.
    pub fn parse(grammar: &'static str) -> Self {
        let mut words = grammar.split_whitespace().peekable();
        let node = sequence(&mut words, grammar);
        assert!(words.next().is_none(), "too many closing brackets: {grammar}");
        node
    }

    /// Appends matching arguments.
    pub fn write(&self, source: &mut Source, request: &mut Request) {
        self.write_repeating(source, request, &mut 1);
    }

    fn write_repeating(&self, source: &mut Source, request: &mut Request, repeated: &mut usize) {
        match self {
            Self::Word(word) => request.push(source.in_some_case(word)),
            Self::Atom(atom) => atom.write(source, request),
            Self::Sequence(nodes) => nodes.iter().for_each(|node| node.write_repeating(source, request, repeated)),
            Self::Optional(node) => {
                if source.chance(50) {
                    node.write_repeating(source, request, repeated);
                }
            }
            Self::OneOf(nodes) => nodes[source.below(nodes.len())].write_repeating(source, request, repeated),
            Self::Options(nodes) => {
                for option in source.options(nodes.len()) {
                    nodes[option].write_repeating(source, request, repeated);
                }
            }
            Self::Repeated { node, least } => {
                *repeated = source.few(*least);
                (0..*repeated).for_each(|_| node.write(source, request));
            }
            Self::AsMany(node) => {
                let times = source.about(*repeated);
                (0..times).for_each(|_| node.write(source, request));
            }
            Self::Counted(node) => {
                *repeated = source.few(1);
                let count = source.count_of(*repeated);
                request.push(count);
                (0..*repeated).for_each(|_| node.write(source, request));
            }
        }
    }
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

/// Nodes up to a closing bracket or a bar, which is not consumed.
fn sequence(words: &mut Words<'static>, grammar: &str) -> Node {
    let mut nodes = Vec::new();
    while let Some(word) = words.next_if(|word| !matches!(*word, "]" | ">" | "}" | ")" | ")+" | ")*" | "|")) {
        nodes.push(match word {
            "[" => Node::Optional(Box::new(alternatives(words, "]", grammar).0.remove(0))),
            "<" => Node::OneOf(alternatives(words, ">", grammar).0),
            "{" => Node::Options(alternatives(words, "}", grammar).0),
            "(" => {
                let (mut nodes, end) = alternatives(words, ")", grammar);
                Node::Repeated { node: Box::new(nodes.remove(0)), least: usize::from(end == ")+") }
            }
            _ => single(word),
        });
    }
    if nodes.len() == 1 { nodes.remove(0) } else { Node::Sequence(nodes) }
}

fn alternatives(words: &mut Words<'static>, end: &str, grammar: &str) -> (Vec<Node>, &'static str) {
    let mut nodes = vec![sequence(words, grammar)];
    loop {
        match words.next() {
            Some("|") => nodes.push(sequence(words, grammar)),
            Some(word) if word.starts_with(end) => return (nodes, word),
            word => panic!("{word:?}, not {end}: {grammar}"),
        }
    }
}

fn single(word: &'static str) -> Node {
    let boxed = |word| Box::new(single(word));
    if let Some(word) = word.strip_prefix('#').filter(|word| !word.is_empty()) {
        return Node::Counted(boxed(word));
    }
    if !word.starts_with(|first: char| first.is_ascii_lowercase()) {
        return Node::Word(word);
    }
    match word.as_bytes() {
        [.., b'+'] => Node::Repeated { node: boxed(&word[..word.len() - 1]), least: 1 },
        [.., b'*'] => Node::Repeated { node: boxed(&word[..word.len() - 1]), least: 0 },
        [.., b'^'] => Node::AsMany(boxed(&word[..word.len() - 1])),
        _ => Node::Atom(Atom::named(word)),
    }
}

#[test]
fn every_grammar_can_be_read() {
    for family in super::families::FAMILIES {
        family.commands.iter().for_each(|command| drop(Node::parse(command.2)));
    }
}
