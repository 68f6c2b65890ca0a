//! Call stacks of a recording, and the user frame of each.

use cubeyard_units::Bytes;

/// Path fragments of Python and of installed packages.
const INSTALLED: [&str; 4] = ["site-packages/", "dist-packages/", "lib/python3", "lib64/python3"];
/// Prefixes of generated file names.
const GENERATED: [&str; 2] = ["<frozen", "<eval_with_key>"];
/// Path fragments of PyTorch's own sources, for an installation from a checkout.
const TORCH: [&str; 10] = [
    "torch/nn/",
    "torch/optim/",
    "torch/autograd/",
    "torch/utils/",
    "torch/cuda/",
    "torch/distributed/",
    "torch/_",
    "torch/amp/",
    "torch/fx/",
    "torch/functional.py",
];
/// Extensions of compiled source files.
const COMPILED: [&str; 9] = [".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hpp", ".S"];

/// Frame of a call stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Frame<'s> {
    /// Path of the file, as recorded.
    pub file: &'s str,
    /// Line in the file.
    pub line: i128,
    /// Name of the function.
    pub function: &'s str,
}

impl Frame<'_> {
    /// Returns whether the frame is in compiled code, which PyTorch records with `stacks="all"`.
    pub fn is_native(&self) -> bool {
        let file = self.file;
        let compiled = COMPILED.iter().any(|ending| file.ends_with(ending));
        file.is_empty() || file.starts_with("??") || compiled || file.contains(".so")
    }

    /// Returns whether the frame is in Python itself or in an installed package.
    pub fn is_library(&self) -> bool {
        let has = |part: &&str| self.file.contains(*part);
        let generated = GENERATED.iter().any(|start| self.file.starts_with(start));
        generated || INSTALLED.iter().chain(&TORCH).any(has)
    }

    /// Formats the frame without the folders of its file: `train.py:88 step`.
    pub fn short(&self) -> String {
        let file = self.file.rsplit(['/', '\\']).next().unwrap_or(self.file);
        format!("{file}:{} {}", self.line, self.function)
    }

    /// Formats the frame with the path of its file: `src/train.py:88 step`.
    pub fn long(&self) -> String {
        format!("{}:{} {}", self.file, self.line, self.function)
    }
}

/// Call stacks of a recording, by call site number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallStacks {
    pub(crate) texts: Vec<String>,
    /// File, line and function of each frame, with texts as indices.
    pub(crate) frames: Vec<(u32, i128, u32)>,
    /// Frames of each call site, innermost first; entry 0 is for call site 0, which has no frames.
    pub(crate) stacks: Vec<Vec<u32>>,
}

impl CallStacks {
    /// Returns whether no allocation has a call stack.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Returns the frames of a call site, innermost first.
    pub fn frames(&self, site: u32) -> impl DoubleEndedIterator<Item = Frame<'_>> {
        let stack = self.stacks.get(site as usize).map_or(&[][..], Vec::as_slice);
        stack.iter().map(|&frame| {
            let (file, line, function) = self.frames[frame as usize];
            Frame {
                file: &self.texts[file as usize],
                line,
                function: &self.texts[function as usize],
            }
        })
    }

    /// Returns the frame by which a reader finds an allocation: the innermost frame outside installed packages, or else
    /// the innermost frame. Compiled code counts only if `native` is set.
    pub fn user_frame(&self, site: u32, native: bool) -> Option<Frame<'_>> {
        let mut shown = self.frames(site).filter(|frame| native || !frame.is_native());
        let innermost = shown.next()?;
        let is_user = |frame: &Frame<'_>| !frame.is_library() && !frame.is_native();
        [innermost].into_iter().chain(shown).find(is_user).or(Some(innermost))
    }

    /// Returns the memory that the stacks occupy.
    pub fn memory(&self) -> Bytes {
        let texts: usize =
            self.texts.iter().map(|text| text.capacity() + size_of::<String>()).sum();
        let stacks: usize =
            self.stacks.iter().map(|stack| stack.capacity() * 4 + size_of::<Vec<u32>>()).sum();
        let frames = self.frames.capacity() * size_of::<(u32, i128, u32)>();
        Bytes::new((texts + stacks + frames) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stacks(files: &[&str]) -> CallStacks {
        let texts = files.iter().map(|file| (*file).to_owned()).collect();
        let frames: Vec<_> =
            (0..).zip(files).map(|(file, _)| (file, i128::from(file) + 1, file)).collect();
        CallStacks { texts, frames, stacks: vec![vec![], (0..).take(files.len()).collect()] }
    }

    fn user(files: &[&str], native: bool) -> Option<String> {
        stacks(files).user_frame(1, native).map(|frame| frame.file.to_owned())
    }

    #[test]
    fn the_frame_shown_is_the_innermost_of_the_users_own() {
        let torch = "/opt/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py";
        let inner =
            ["c10/CUDACachingAllocator.cpp", "??", torch, "/home/a/model.py", "/home/a/main.py"];
        assert_eq!(user(&inner, false).as_deref(), Some("/home/a/model.py"));
        assert_eq!(user(&inner, true).as_deref(), Some("/home/a/model.py"));
        assert_eq!(user(&inner[..3], false).as_deref(), Some(torch));
        assert_eq!(user(&inner[..2], false), None);
        assert_eq!(user(&inner[..2], true).as_deref(), Some("c10/CUDACachingAllocator.cpp"));
        assert_eq!(user(&[], false), None);
    }

    #[test]
    fn a_folder_named_torch_is_not_the_library() {
        for (file, library) in [
            ("/home/a/torch/train.py", false),
            ("/src/pytorch/torch/nn/functional.py", true),
            ("<frozen importlib._bootstrap>", true),
            ("<stdin>", false),
            ("/usr/lib/python3.12/threading.py", true),
        ] {
            assert_eq!(Frame { file, line: 1, function: "f" }.is_library(), library, "{file}");
        }
    }

    #[test]
    fn an_unknown_call_site_has_no_frames() {
        let stacks = stacks(&["a/b.py"]);
        assert_eq!((stacks.frames(0).count(), stacks.frames(7).count()), (0, 0));
        assert_eq!(stacks.frames(1).next().unwrap().short(), "b.py:1 a/b.py");
    }
}
