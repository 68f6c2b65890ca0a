//! The readable cases in `testdata/cases`, on every allocator that they apply to.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cubeyard_memory::device::{Card, CardSpec};
use cubeyard_memory::flex::{
    AllocateError, AllocationToken, FlexAllocator, FlexConfig, MIN_ALIGNMENT,
};
use cubeyard_memory::free_list::Checking;
use cubeyard_memory::index::{BlockKey, Fit, FreeIndex};
use cubeyard_memory::policy;
use cubeyard_memory::{Bytes, FreeList};
use cubeyard_replay::trace::script::{Expectation, Request, Script, Step};

/// An allocator over one space, as the cases see it.
trait Engine {
    /// Allocates a block; returns its offset.
    fn allocate(&mut self, request: &Request) -> Option<Bytes>;
    /// Frees a block; returns whether the free was accepted.
    fn free(&mut self, name: &str) -> bool;
    fn largest(&mut self) -> Bytes;
    fn free_bytes(&mut self) -> Bytes;
}

/// Requirements of a case on an engine.
struct Needs<'a> {
    space: Bytes,
    granule: Bytes,
    policy: Option<&'a str>,
    /// Options used: alignment, placement at an offset, placement at the high end.
    options: BTreeSet<&'static str>,
}

impl<'a> Needs<'a> {
    fn of(script: &'a Script) -> Self {
        let mut needs = Needs {
            space: Bytes::ZERO,
            granule: Bytes::new(1),
            policy: None,
            options: BTreeSet::new(),
        };
        for statement in &script.statements {
            match &statement.step {
                Step::Space(size) => needs.space = *size,
                Step::Granule(size) => needs.granule = *size,
                Step::Policy(name) => needs.policy = Some(name),
                Step::Allocate(request) => {
                    let options = [
                        ("align", request.align.is_some()),
                        ("at", request.at.is_some()),
                        ("high", request.high),
                    ];
                    let used = options.iter().filter(|(_, used)| *used);
                    needs.options.extend(used.map(|(option, _)| option));
                }
                _ => {}
            }
        }
        needs
    }

    fn is(&self, policy: &str) -> bool {
        self.policy.is_none_or(|wanted| wanted == policy)
    }
}

struct Index {
    space: FreeIndex,
    fit: Fit,
    /// Keys of all blocks; keys of freed blocks stay, so that a case can free them again.
    keys: BTreeMap<String, BlockKey>,
}

impl Engine for Index {
    fn allocate(&mut self, request: &Request) -> Option<Bytes> {
        let fit = if request.high { Fit::Last } else { self.fit };
        let align = request.align.unwrap_or(Bytes::new(1));
        let block = match request.at {
            Some(at) => self.space.allocate_at(at, request.size, 0),
            None => self.space.allocate_aligned(fit, request.size, align, 0),
        }?;
        self.keys.insert(request.name.clone(), block.key);
        Some(block.offset)
    }
    fn free(&mut self, name: &str) -> bool {
        self.space.free(self.keys[name]).is_ok()
    }
    fn largest(&mut self) -> Bytes {
        self.space.largest()
    }
    fn free_bytes(&mut self) -> Bytes {
        self.space.free_bytes()
    }
}

struct List {
    list: FreeList,
    places: BTreeMap<String, (Bytes, Bytes)>,
}

impl Engine for List {
    fn allocate(&mut self, request: &Request) -> Option<Bytes> {
        let offset = self.list.allocate(request.size).ok()?;
        self.places.insert(request.name.clone(), (offset, request.size));
        Some(offset)
    }
    fn free(&mut self, name: &str) -> bool {
        let (offset, size) = self.places[name];
        self.list.free(offset, size).is_ok()
    }
    fn largest(&mut self) -> Bytes {
        self.list.largest()
    }
    fn free_bytes(&mut self) -> Bytes {
        self.list.free_bytes()
    }
}

/// The Flex allocator, whose granule is at least 128 bytes. In a case with a smaller granule, all numbers are multiplied
/// by `scale`.
struct Flex {
    allocator: FlexAllocator,
    scale: u64,
    tokens: BTreeMap<String, AllocationToken>,
}

impl Engine for Flex {
    fn allocate(&mut self, request: &Request) -> Option<Bytes> {
        let scaled = |bytes: Bytes| Bytes::new(bytes.get() * self.scale);
        let alignment = scaled(request.align.unwrap_or(Bytes::new(1)));
        let wanted = policy::Request { alignment, ..policy::Request::new(scaled(request.size)) };
        match self.allocator.allocate_for(&wanted) {
            Ok(block) => {
                let offset = Bytes::new(block.address().offset.get() / self.scale);
                self.tokens.insert(request.name.clone(), block.into_token());
                Some(offset)
            }
            Err(AllocateError::OutOfMemory(_)) => None,
            Err(error) => panic!("{error}"),
        }
    }
    fn free(&mut self, name: &str) -> bool {
        self.allocator.free_token(self.tokens[name]).is_ok()
    }
    fn largest(&mut self) -> Bytes {
        Bytes::new(self.allocator.regions()[0].largest.get() / self.scale)
    }
    fn free_bytes(&mut self) -> Bytes {
        Bytes::new(self.allocator.regions()[0].free.get() / self.scale)
    }
}

/// Returns the engines that a case applies to, by name.
fn engines(needs: &Needs<'_>) -> Vec<(String, Box<dyn Engine>)> {
    let mut engines: Vec<(String, Box<dyn Engine>)> = Vec::new();
    for (name, fit) in [("first-fit", Fit::First), ("best-fit", Fit::Best)] {
        if needs.is(name) {
            let space = FreeIndex::new(needs.space, needs.granule);
            let engine = Index { space, fit, keys: BTreeMap::new() };
            engines.push((format!("index/{name}"), Box::new(engine)));
        }
    }
    if needs.is("first-fit") && needs.options.is_empty() && needs.granule == Bytes::new(1) {
        let list = FreeList::new(needs.space, Checking::Checked);
        let engine = List { list, places: BTreeMap::new() };
        engines.push(("free-list".to_owned(), Box::new(engine)));
    }
    let plain = !needs.options.contains("at") && !needs.options.contains("high");
    for block in policy::BLOCK.iter().filter(|block| needs.is(block.name) && plain) {
        // Other policies choose their own offsets, so they run only in cases that name them.
        if !["first-fit", "best-fit"].contains(&block.name) && needs.policy.is_none() {
            continue;
        }
        for region in policy::REGION {
            let alignment = needs.granule.max(MIN_ALIGNMENT);
            let scale = alignment.get() / needs.granule.get();
            let space = Bytes::new(needs.space.get() * scale);
            let mut config = FlexConfig::default();
            config.fallback_sizes = vec![space];
            config.max_regions = 1;
            config.alignment = alignment;
            config.block = block;
            config.region = region;
            let card = Arc::new(Card::new(CardSpec::physical(space)));
            let allocator = FlexAllocator::builder(card).config(config).build().unwrap();
            let engine = Flex { allocator, scale, tokens: BTreeMap::new() };
            engines.push((format!("flex/{}/{}", region.name, block.name), Box::new(engine)));
        }
    }
    engines
}

fn run(script: &Script, engine: &mut dyn Engine) {
    for statement in &script.statements {
        let line = statement.line;
        match &statement.step {
            Step::Space(_) | Step::Granule(_) | Step::Policy(_) => {}
            Step::Allocate(request) => {
                let place = engine.allocate(request);
                match request.outcome {
                    Some(Expectation::Offset(offset)) => {
                        assert_eq!(place, Some(offset), "line {line}");
                    }
                    Some(Expectation::OutOfMemory) => assert_eq!(place, None, "line {line}"),
                    None => assert!(place.is_some(), "line {line}"),
                }
            }
            Step::Free { name, refused } => {
                assert_eq!(engine.free(name), !refused, "line {line}");
            }
            Step::Largest(size) => assert_eq!(engine.largest(), *size, "line {line}"),
            Step::FreeBytes(size) => assert_eq!(engine.free_bytes(), *size, "line {line}"),
        }
    }
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cases");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.collect();
    files.sort();
    files
}

#[test]
fn every_case_runs_on_every_allocator_that_it_applies_to() {
    let mut runs = BTreeMap::<String, usize>::new();
    let files = files();
    for file in &files {
        let script = Script::parse(&fs::read_to_string(file).unwrap())
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let engines = engines(&Needs::of(&script));
        assert!(!engines.is_empty(), "{} applies to nothing", file.display());
        for (name, mut engine) in engines {
            let case = file.file_stem().unwrap().to_string_lossy();
            println!("{case} on {name}");
            run(&script, engine.as_mut());
            *runs.entry(name).or_default() += 1;
        }
    }
    println!("{} cases: {runs:?}", files.len());
    assert!(files.len() >= 14, "{} cases", files.len());
    for engine in ["index/first-fit", "index/best-fit", "free-list", "flex/fill-first/best-fit"] {
        assert!(runs.get(engine).is_some_and(|&runs| runs >= 2), "{engine}: {runs:?}");
    }
}
