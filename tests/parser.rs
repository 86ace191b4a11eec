//! The request parser against arbitrary bytes, arbitrary pieces, and another implementation.

// A test that cannot continue panics with the reason.
#![allow(clippy::unwrap_used, missing_docs)]

use proptest::prelude::*;
use redis_protocol::resp2::types::{OwnedFrame, Resp2Frame};
use shardrace::internals::resp::{Limits, ProtocolError, RequestParser, Step};

const OPEN: Limits = Limits { bulk_len_max: 512 << 20, authenticated: true };
/// Small enough for random bytes to meet them.
const TIGHT: Limits = Limits { bulk_len_max: 64, authenticated: false };

type Request = Vec<Vec<u8>>;

/// The result of bytes that come in pieces: requests, then an error or bytes of an incomplete request.
#[derive(Debug, PartialEq)]
struct Outcome {
    requests: Vec<Request>,
    error: Option<ProtocolError>,
    left: Vec<u8>,
}

/// Feeds pieces like a connection: it keeps the bytes of an incomplete request in front of the next ones.
fn feed<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limits: Limits) -> Outcome {
    let mut parser = RequestParser::default();
    let mut outcome = Outcome { requests: Vec::new(), error: None, left: Vec::new() };
    for piece in pieces {
        outcome.left.extend_from_slice(piece);
        loop {
            match parser.parse(&outcome.left, limits) {
                Ok(Step::Incomplete) => break,
                Ok(Step::Nothing(len)) => {
                    assert!((1..=outcome.left.len()).contains(&len), "progress, within the input");
                    outcome.left.drain(..len);
                }
                Ok(Step::Request(len)) => {
                    assert!((1..=outcome.left.len()).contains(&len), "progress, within the input");
                    let args = parser.args(&outcome.left);
                    assert!(!args.is_empty(), "a request has a name");
                    outcome.requests.push(args.iter().map(<[u8]>::to_vec).collect());
                    outcome.left.drain(..len);
                }
                Err(error) => {
                    // The connection closes: the rest is dropped.
                    outcome.left.clear();
                    outcome.error = Some(error);
                    return outcome;
                }
            }
        }
    }
    outcome
}

fn feed_whole(bytes: &[u8], limits: Limits) -> Outcome {
    feed([bytes], limits)
}

fn encode(request: &Request) -> Vec<u8> {
    let frame = OwnedFrame::Array(request.iter().cloned().map(OwnedFrame::BulkString).collect());
    let mut bytes = vec![0; frame.encode_len(false)];
    let len = redis_protocol::resp2::encode::encode(&mut bytes, &frame, false).unwrap();
    bytes.truncate(len);
    bytes
}

/// Requests of arbitrary bytes, up to longer than a read of the server.
fn requests() -> impl Strategy<Value = Vec<Request>> {
    let argument = prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..40),
        1 => prop::collection::vec(any::<u8>(), 0..2_000),
        1 => Just(b"\r\n$3\r\n*2\r\n".to_vec()),
    ];
    prop::collection::vec(prop::collection::vec(argument, 1..8), 0..12)
}

/// Bytes that are requests for a while, and then perhaps not.
fn nearly_requests() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        6 => prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..4).prop_map(|request| encode(&request)),
        2 => prop::sample::select(vec![
            "*1\r\n", "*2\r\n", "*0\r\n", "*-1\r\n", "$3\r\nabc\r\n", "$0\r\n\r\n", "\r\n", "\n", "PING\r\n",
            "SET \"a b\" 'c'\r\n", "\"", "'", "\\x4", "*", "$", "*12\r\n", "$65\r\n", "\r", " ", "$-1\r\n",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ];
    prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat())
}

fn pieces_of<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut positions: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    positions.extend([0, bytes.len()]);
    positions.sort_unstable();
    positions.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn what_another_implementation_encodes_is_parsed_as_it_was(requests in requests()) {
        let bytes: Vec<u8> = requests.iter().flat_map(encode).collect();
        let outcome = feed_whole(&bytes, OPEN);
        prop_assert_eq!(outcome, Outcome { requests, error: None, left: Vec::new() });
    }

    #[test]
    fn any_pieces_give_the_same_as_one_feed(
        bytes in nearly_requests(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        is_tight in any::<bool>(),
    ) {
        let limits = if is_tight { TIGHT } else { OPEN };
        let whole = feed_whole(&bytes, limits);
        prop_assert_eq!(feed(pieces_of(&bytes, &cuts), limits), whole);
    }

    #[test]
    fn a_split_at_every_byte_gives_the_same_as_one_feed(bytes in nearly_requests()) {
        for limits in [OPEN, TIGHT] {
            let whole = feed_whole(&bytes, limits);
            for cut in 0..=bytes.len() {
                prop_assert_eq!(&feed([&bytes[..cut], &bytes[cut..]], limits), &whole, "cut at {}", cut);
            }
            prop_assert_eq!(feed(bytes.chunks(1), limits), whole);
        }
    }

    #[test]
    fn both_implementations_agree_on_which_bytes_are_a_whole_request(request in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..5), cut in any::<prop::sample::Index>()) {
        let bytes = encode(&request);
        let start = &bytes[..cut.index(bytes.len() + 1)];
        let ours = feed_whole(start, OPEN);
        let theirs = redis_protocol::resp2::decode::decode(start).unwrap();
        prop_assert_eq!(ours.requests.len(), usize::from(theirs.is_some()));
        prop_assert_eq!(ours.error, None);
    }
}

#[test]
fn no_bytes_make_the_parser_panic_or_stand_still() {
    bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
        for limits in [OPEN, TIGHT] {
            let whole = feed_whole(bytes, limits);
            assert_eq!(feed(bytes.chunks(3), limits), whole);
            let copied: usize = whole.requests.iter().flatten().map(Vec::len).sum();
            assert!(copied <= bytes.len(), "arguments come from the input");
        }
    });
}
