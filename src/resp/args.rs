//! The arguments of one request: their positions, not copies of them.

use super::SharedBulk;
use bytes::Bytes;

/// An argument of this many bytes may be shared with the read that brought it, instead of being copied.
pub const SHARED_MIN: usize = 32 * 1024;

/// The position of one argument in the bytes that hold it.
///
/// 32 bits are sufficient: a request is limited to 2 GB (`client-query-buffer-limit`), and a batch to one request and
/// what was read with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// Length in bytes.
    pub len: u32,
}

impl Span {
    /// The positions of its bytes.
    #[inline]
    pub fn range(self) -> std::ops::Range<usize> {
        let start = self.start as usize;
        start..start + self.len as usize
    }

    /// `len` bytes from `start` on.
    ///
    /// # Panics
    /// Past 4 GiB: the code that collects arguments bounds them.
    #[inline]
    pub fn new(start: usize, len: usize) -> Self {
        let narrow = |bytes: usize| u32::try_from(bytes).expect("what holds arguments is bounded");
        Self { start: narrow(start), len: narrow(len) }
    }
}

/// The arguments of one request, including the command's name. Never empty.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    source: Source<'a>,
    spans: &'a [Span],
}

/// The bytes that hold arguments.
#[derive(Debug, Clone, Copy)]
enum Source<'a> {
    Lent(&'a [u8]),
    /// They may be shared.
    Shared(&'a Bytes),
}

/// Commands pass them by value.
const _: () = assert!(size_of::<Args<'_>>() == 32);

impl<'a> Source<'a> {
    #[inline]
    fn bytes(self) -> &'a [u8] {
        match self {
            Self::Lent(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

impl<'a> Args<'a> {
    /// The arguments at `spans` of `bytes`.
    pub fn new(bytes: &'a [u8], spans: &'a [Span]) -> Self {
        Self { source: Source::Lent(bytes), spans }
    }

    /// The arguments at `spans` of bytes that may be shared.
    pub fn new_shared(bytes: &'a Bytes, spans: &'a [Span]) -> Self {
        Self { source: Source::Shared(bytes), spans }
    }

    /// The same arguments, in bytes that may be shared.
    #[inline]
    pub fn in_shared(self, owner: Option<&'a Bytes>) -> Self {
        match owner {
            Some(owner) => {
                debug_assert_eq!(owner.as_ptr(), self.source.bytes().as_ptr(), "they are the same bytes");
                Self::new_shared(owner, self.spans)
            }
            None => self,
        }
    }

    /// The bytes that hold the arguments, if they may be shared.
    #[inline]
    pub fn owner(&self) -> Option<&'a Bytes> {
        match self.source {
            Source::Lent(_) => None,
            Source::Shared(owner) => Some(owner),
        }
    }

    /// Argument `index` in the bytes that hold it, if they may be shared and it is nearly all of them.
    #[inline]
    pub fn shared(&self, index: usize) -> Option<SharedBulk> {
        self.part_of(self.owner()?, index)
    }

    #[cold]
    fn part_of(&self, owner: &Bytes, index: usize) -> Option<SharedBulk> {
        let len = self.get(index)?.len();
        let is_nearly_all = len >= SHARED_MIN && owner.len() - len <= len / 8;
        is_nearly_all.then(|| SharedBulk::around(owner, self.spans[index].range())).flatten()
    }

    /// How many arguments there are, including the name.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there is not even a name.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Argument `index`; the name is argument 0.
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|span| &self.source.bytes()[span.start as usize..][..span.len as usize])
    }

    /// The bytes of all arguments together.
    pub fn byte_len(&self) -> usize {
        self.spans.iter().map(|span| span.len as usize).sum()
    }

    /// The positions of all arguments in the bytes that hold them.
    #[inline]
    pub fn spans(&self) -> &'a [Span] {
        self.spans
    }

    /// The positions of some of the arguments, for [`with_spans`](Self::with_spans).
    pub fn spans_of(&self, positions: impl Iterator<Item = usize>) -> Vec<Span> {
        positions.map(|position| self.spans[position]).collect()
    }

    /// Other arguments in the same bytes.
    #[inline]
    pub fn with_spans<'b>(&self, spans: &'b [Span]) -> Args<'b>
    where
        'a: 'b,
    {
        Args { spans, ..*self }
    }

    /// The arguments from `start` on.
    pub fn from(&self, start: usize) -> Args<'a> {
        Args { spans: &self.spans[start.min(self.spans.len())..], ..*self }
    }

    /// The first `len` arguments.
    pub fn to(&self, len: usize) -> Args<'a> {
        Args { spans: &self.spans[..len.min(self.spans.len())], ..*self }
    }

    /// All arguments in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let bytes = self.source.bytes();
        self.spans.iter().map(move |span| &bytes[span.start as usize..][..span.len as usize])
    }

    /// Whether argument `index` is `word`, in any case.
    pub fn is(&self, index: usize, word: &str) -> bool {
        self.get(index).is_some_and(|argument| argument.eq_ignore_ascii_case(word.as_bytes()))
    }
}

/// The arguments of a request that stands nowhere else.
#[derive(Debug, Default)]
pub struct OwnedArgs {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl OwnedArgs {
    /// The arguments, to be used as those of a request.
    pub fn args(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.spans)
    }
}

impl<T: AsRef<[u8]>> FromIterator<T> for OwnedArgs {
    fn from_iter<I: IntoIterator<Item = T>>(words: I) -> Self {
        let mut all = Self::default();
        for word in words {
            all.spans.push(Span::new(all.bytes.len(), word.as_ref().len()));
            all.bytes.extend_from_slice(word.as_ref());
        }
        all
    }
}

impl std::ops::Index<usize> for Args<'_> {
    type Output = [u8];

    /// # Panics
    /// If there is no such argument: the table's arity has been checked before a command runs.
    fn index(&self, index: usize) -> &[u8] {
        self.get(index).expect("arity is checked before a command runs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_shared_if_it_is_large_and_nearly_all_that_was_read() {
        for (value, others, is_shared) in
            [(SHARED_MIN, 10, true), (SHARED_MIN - 1, 10, false), (SHARED_MIN, 5000, false)]
        {
            let head = [&vec![b'o'; others][..], format!("${value}\r\n").as_bytes()].concat();
            let read = Bytes::from([&head[..], &vec![b'v'; value], b"\r\n"].concat());
            let spans = [Span::new(0, 3), Span::new(head.len(), value)];
            let args = Args::new(&read, &spans).in_shared(Some(&read));
            assert_eq!(args.shared(1).is_some_and(|shared| shared.text() == vec![b'v'; value]), is_shared);
            assert!(args.shared(0).is_none() && args.shared(2).is_none());
            assert!(Args::new(&read, &spans).shared(1).is_none(), "these bytes are lent");
            assert_eq!(args.from(1).shared(0).is_some(), is_shared);
        }
    }
}
