//! The code maps are true: a room only imports what its map permits, and rooms form no cycle; files share a name
//! only where they share an idea.
//!
//! The test reads the tables of the maps and the paths in the sources. Code that is compiled only for tests may use
//! more.

mod columns;
mod draws;
mod imports;
mod map;
mod names;

use imports::{Tree, sources};
use map::CodeMap;
use std::path::Path;

/// The documents with a map, and the sources that each is of.
const MAPS: [(&str, &str); 3] = [
    ("docs/ARCHITECTURE.md", "src"),
    ("experiments/README.md", "experiments/src"),
    ("loadgen/README.md", "loadgen/src"),
];

/// The modules whose rooms a map has: the crate itself, and rooms with rooms in them.
const MAPPED: [(&str, &str, &[&str]); 4] = [
    (MAPS[0].0, MAPS[0].1, &[]),
    (MAPS[0].0, MAPS[0].1, &["aof"]),
    (MAPS[1].0, MAPS[1].1, &[]),
    (MAPS[2].0, MAPS[2].1, &[]),
];

/// A document, and the texts of its sources by their paths.
fn text_and_sources(document: &str, src: &str) -> (String, Vec<(String, String)>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join(document)).expect("the document is there");
    (text, sources(&root.join(src)).expect("the sources can be read"))
}

#[test]
fn rooms_import_what_their_code_map_allows_and_form_no_cycle() {
    for (document, src, within) in MAPPED {
        let (text, texts) = text_and_sources(document, src);
        let faults = CodeMap::read(&text, within).faults(&Tree::within(within, &texts));
        assert!(faults.is_empty(), "{document}, code map:\n{}", faults.join("\n"));
    }
}

#[test]
fn files_share_a_name_where_their_document_says_what_they_have_in_common_and_nowhere_else() {
    for (document, src) in MAPS {
        let (text, texts) = text_and_sources(document, src);
        let said = names::said_to_be_shared(&text);
        let mut paths: Vec<&str> = texts.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(names::shared(&paths), said, "{document}");
        paths.push("planted/lib.rs");
        assert_eq!(names::shared(&paths), said, "roots are no ideas");
        paths.extend(["planted/planted.rs", "planted.rs"]);
        assert!(names::shared(&paths).contains("planted.rs"));
    }
}

#[test]
fn a_module_with_others_in_it_is_a_directory_with_a_mod_rs() {
    for (document, src) in MAPS {
        let (_, texts) = text_and_sources(document, src);
        let mut paths: Vec<&str> = texts.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(names::beside_their_directory(&paths), [""; 0], "{document}");
        paths.extend(["planted.rs", "planted/inner.rs"]);
        assert_eq!(names::beside_their_directory(&paths), ["planted.rs"]);
    }
}

#[test]
fn comments_end_at_the_last_column() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = Vec::new();
    for dir in ["src", "actors", "loadgen", "experiments/src", "experiments/tests", "tests"] {
        let texts = sources(&root.join(dir)).expect("the sources can be read");
        assert!(!texts.is_empty(), "{dir} has no sources");
        all.extend(texts.into_iter().map(|(path, text)| (format!("{dir}/{path}"), text)));
    }
    assert_eq!(columns::too_long(&all), [""; 0], "comments of more than {} columns", columns::MAX);
    let planted = format!("fn main() {{}}\n    // A comment{}\n", " that is too long".repeat(7));
    all.push(("planted.rs".into(), planted));
    assert_eq!(columns::too_long(&all), ["planted.rs:2"]);
}

#[test]
fn a_file_planted_in_the_first_room_of_a_map_may_not_import_the_last() {
    for (document, src, within) in MAPPED {
        let (text, mut texts) = text_and_sources(document, src);
        let map = CodeMap::read(&text, within);
        let rooms: Vec<&str> = map.rooms().collect();
        let (first, last) = (rooms[0], rooms[rooms.len() - 1]);
        let planted = [within, &[first, "planted.rs"]].concat().join("/");
        texts.push((planted.clone(), format!("use {};", [&["crate"], within, &[last]].concat().join("::"))));
        let found = map.faults(&Tree::within(within, &texts));
        assert_eq!(found, [format!("{first} may not use {last}: src/{planted} does")], "{document}");
    }
}

#[test]
fn the_server_draws_no_random_number_past_its_platform() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut texts = sources(&root.join("src")).expect("the sources can be read");
    assert_eq!(draws::past_the_seam(&Tree::of(&texts)), draws::BELONGS_TO_THE_PROCESS);
    let harmless =
        "fn f() { fastrand::Rng::with_seed(1).u64(..); } #[cfg(test)] mod tests { fn f() { fastrand::u64(..); } }";
    texts.push(("base/planted.rs".into(), harmless.into()));
    assert_eq!(draws::past_the_seam(&Tree::of(&texts)), draws::BELONGS_TO_THE_PROCESS);
    for planted in [
        "fn f() { g(fastrand::u64(..)); }",
        "fn f() { fastrand::Rng::new(); }",
        "fn f() { fastrand::Rng::default(); }",
        "use fastrand::u64;",
        "use fastrand::{Rng, u64};",
        "use fastrand as random;",
        "fn f() { getrandom::fill(&mut []); }",
        "fn f() { std::fs::File::open(\"/dev/urandom\"); }",
    ] {
        texts.last_mut().expect("it was planted").1 = planted.into();
        let found = draws::past_the_seam(&Tree::of(&texts));
        assert!(found.iter().any(|path| path == "src/base/planted.rs"), "{planted}");
    }
}

const MAP: &str = "
## Code map

| room | what it is | may use |
|---|---|---|
| `src/low.rs` | the ground floor | |
| `src/middle/` | the first floor | `low` |
| `src/high.rs` | the roof | `low`, `middle` |

## Other
";

fn faults(map: &str, files: &[(&str, &str)]) -> Vec<String> {
    CodeMap::read(map, &[]).faults(&Tree::of(files))
}

#[test]
fn a_tree_as_the_map_draws_it_has_no_fault() {
    let files = [
        ("lib.rs", "mod low;\npub mod middle;\npub mod high;"),
        ("low.rs", "pub struct Low;"),
        ("middle/mod.rs", "mod inner; pub use inner::Inner;"),
        ("middle/inner.rs", "use crate::low::Low; use super::Other;"),
        ("high.rs", "use crate::{low::Low, middle::{self, Inner}};"),
    ];
    assert_eq!(faults(MAP, &files), [""; 0]);
}

#[test]
fn a_planted_import_is_found_however_it_is_written() {
    for planted in [
        "use crate::high::High;",
        "use crate::{middle, high};",
        "use crate::{\n    middle::Inner,\n    high::{self, High},\n};",
        "use super::super::high::High;",
        "fn f(_: crate::high::High) {}",
        "fn f() { let _ = super::super::high::build(\"}\", '}', b'\\''); }",
        "#[cfg(test)]\nmod tests { fn f() { \"}\"; } }\nuse crate::high::High;",
        "#[cfg(test)]\nuse crate::low;\nuse crate::high::High;",
        "/* use crate::low; */ use /* here */ crate :: high :: High;",
        "const TEXT: &str = r#\"\"crate::\"#; use crate::high::High;",
        "macro_rules! m { () => { $crate::high::High } }",
    ] {
        let inner = format!("use crate::low::Low;\n{planted}");
        let files = [
            ("lib.rs", "mod low; mod middle; mod high;"),
            ("low.rs", ""),
            ("middle/mod.rs", "mod inner;"),
            ("middle/inner.rs", inner.as_str()),
            ("high.rs", "use crate::{low, middle};"),
        ];
        assert_eq!(faults(MAP, &files), ["middle may not use high: src/middle/inner.rs does"], "{planted}");
    }
}

#[test]
fn a_way_past_the_map_through_the_root_of_the_crate_is_found() {
    for (planted, name) in [
        ("use crate::internals::high::High;", "internals"),
        ("use crate::{low, internals::high};", "internals"),
        ("use crate::High;", "High"),
        ("use super::super::High;", "High"),
        ("use crate::*;", "*"),
        ("use crate as root; fn f(_: root::high::High) {}", "as root"),
        ("use crate::{self as root, low}; fn f(_: root::high::High) {}", "as root"),
        ("use super::super as root; fn f(_: root::high::High) {}", "as root"),
    ] {
        let files = [
            ("lib.rs", "mod low; mod middle; mod high; pub use high::High; pub mod internals { pub use crate::high; }"),
            ("low.rs", ""),
            ("middle/mod.rs", "mod inner; use crate::low;"),
            ("middle/inner.rs", planted),
            ("high.rs", "use crate::{low, middle};"),
        ];
        assert_eq!(
            faults(MAP, &files),
            [format!("src/middle/inner.rs uses crate::{name}, which is no room")],
            "{planted}"
        );
    }
}

#[test]
fn rooms_in_a_room_are_held_to_the_rows_of_their_own() {
    let map = MAP.replace(
        "| `src/high.rs`",
        "| `src/middle/cellar.rs` | dark | |\n| `src/middle/loft/` | dusty | `cellar` |\n| `src/high.rs`",
    );
    let files = |planted: &'static str| {
        [
            ("lib.rs", "mod low; mod middle; mod high;"),
            ("low.rs", "pub struct Low;"),
            ("middle/mod.rs", "mod cellar; mod loft; use crate::low; pub use cellar::Wine; pub use loft::Dust;"),
            ("middle/cellar.rs", planted),
            ("middle/loft/mod.rs", "mod box_of_dust; pub(super) use super::cellar::Wine;"),
            ("middle/loft/box_of_dust.rs", "use crate::low::Low; pub(in crate::middle) struct Dust;"),
            ("high.rs", "use crate::{low, middle};"),
        ]
    };
    let faults = |files: &[(&'static str, &'static str)]| {
        let inside = CodeMap::read(&map, &["middle"]).faults(&Tree::within(&["middle"], files));
        [CodeMap::read(&map, &[]).faults(&Tree::of(files)), inside].concat()
    };
    assert_eq!(faults(&files("pub struct Wine; impl Wine { fn age(&self) { f(self); } }")), [""; 0]);
    for planted in [
        "use super::loft::Dust;",
        "use crate::middle::loft::Dust;",
        "use crate::{low::Low, middle::{loft::Dust}};",
        "fn f() { crate::middle::loft::box_of_dust::sweep(); }",
    ] {
        assert_eq!(faults(&files(planted)), ["cellar may not use loft: src/middle/cellar.rs does"], "{planted}");
    }
    for (planted, name) in [
        ("use super::Dust;", "Dust"),
        ("use crate::middle::*;", "*"),
        ("use crate::middle;", "self"),
        ("use crate::{low::Low, middle::{self}};", "self"),
        ("use crate::middle as root;", "as root"),
        ("use super as root;", "as root"),
    ] {
        let fault = format!("src/middle/cellar.rs uses crate::middle::{name}, which is no room");
        assert_eq!(faults(&files(planted)), [fault], "{planted}");
    }
}

#[test]
fn what_is_for_tests_alone_and_what_is_no_code_may_name_any_room() {
    for harmless in [
        "#[cfg(test)]\nmod tests { use crate::high::High; fn f() { \"}\"; } }",
        "#[cfg(test)] use crate::high::High;",
        "#[cfg(test)]\n#[path = \"tests.rs\"]\nmod tests;",
        "// use crate::high::High;",
        "/// [`High`](crate::high::High)\nfn f() {}",
        "const TEXT: &str = \"crate::high\"; const RAW: &str = r#\"crate::\"high\"#;",
    ] {
        let inner = format!("use crate::low::Low;\n{harmless}");
        let files = [
            ("lib.rs", "mod low; mod middle; mod high;"),
            ("low.rs", ""),
            ("middle/mod.rs", inner.as_str()),
            ("middle/tests.rs", if inner.contains("mod tests;") { "use crate::high::High;" } else { "" }),
            ("high.rs", "use crate::{low, middle};"),
        ];
        assert_eq!(faults(MAP, &files), [""; 0], "{harmless}");
    }
}

#[test]
fn a_room_that_the_map_lacks_or_that_is_gone_is_found() {
    let files = [("lib.rs", ""), ("low.rs", ""), ("middle/mod.rs", "use crate::low;"), ("attic.rs", "")];
    let found = faults(MAP, &files);
    assert!(found.contains(&"attic is in src and not in the map".to_owned()), "{found:?}");
    assert!(found.contains(&"high is in the map and not in src".to_owned()), "{found:?}");
}

#[test]
fn a_permission_that_nobody_needs_is_found() {
    let files = [("low.rs", ""), ("middle/mod.rs", ""), ("high.rs", "use crate::{low, middle};")];
    assert_eq!(faults(MAP, &files), ["middle may use low and does not"]);
}

#[test]
fn a_cycle_is_found_though_each_room_may_use_the_next() {
    let map = MAP.replace("the ground floor | |", "the ground floor | `high` |");
    let files = [
        ("low.rs", "use crate::high;"),
        ("middle/mod.rs", "use crate::low;"),
        ("high.rs", "use crate::{low, middle};"),
    ];
    assert_eq!(faults(&map, &files), ["low may use high, which is below it in the map: rooms use those above them"]);
}
