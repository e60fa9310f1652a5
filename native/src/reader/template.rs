//! What a shape of span comes to: a record with holes, its row, and what it adds to the sums.

use std::sync::Arc;

use blake2::digest::consts::U8;
use blake2::{Blake2b, Digest};
use sha2::Sha256;

use super::program::{Numbers, Program};
use super::span::{Span, Varying};
use super::write;

/// Domain and length of a span's record id (`spool.span_form`).
const RECORD_DOMAIN: &[u8] = b"span\0";
const RECORD_ID_BYTES: usize = 16;
/// The largest count of a row.
const MOST: i128 = i32::MAX as i128;
const PARENT_AT: usize = 24;
const NO_SPAN: [u8; 8] = [0; 8];

/// A part of the record's JSON.
#[derive(Debug)]
pub enum Piece {
    Text(Box<[u8]>),
    Number(u8),
    Money(u8),
    Time(u8),
    TraceId,
    SpanId,
    ParentId,
    RecordId,
    Hole(u8),
    ReceivedAt,
}

/// A field of the ledger's row that varies, at its place in it.
#[derive(Debug, Clone, Copy)]
pub enum Patch {
    /// A signed number of 8 bytes.
    Number(usize, u8),
    /// A count of 4 bytes, cut to the largest.
    Count(usize, u8),
    /// The fingerprint of a text that varies, changed by XOR.
    Fingerprint(usize, u8, u64),
}

impl Patch {
    fn end(&self) -> usize {
        match self {
            Patch::Number(at, _) | Patch::Fingerprint(at, _, _) => at.saturating_add(8),
            Patch::Count(at, _) => at.saturating_add(4),
        }
    }
}

/// As `gateway.common.contract.parsed_payload.Used`, without the tokens.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct UsedBy {
    pub service: Option<String>,
    pub device: Option<String>,
    pub instance: u64,
    pub session: Option<String>,
    pub model: Option<String>,
    /// Whether the session is the hole of that number.
    pub session_hole: Option<u8>,
}

/// A call that spans of the shape report.
#[derive(Debug)]
pub struct Call {
    pub record: Vec<Piece>,
    pub row: Box<[u8]>,
    pub patches: Vec<Patch>,
    pub used_by: Arc<UsedBy>,
    /// Place of the tokens among the program's numbers.
    pub tokens: u8,
    pub service: Option<Arc<str>>,
    pub is_missing: bool,
    pub unpriced: Option<Arc<str>>,
}

/// Service and scope of spans that look like AI work and are no calls.
pub type AiSource = (Option<String>, String);

#[derive(Debug)]
pub struct Template {
    pub program: Program,
    pub is_ignored: bool,
    pub is_suppressed: bool,
    pub ai_source: Option<Arc<AiSource>>,
    /// Why Python reads these; what follows is then empty.
    pub refused: Option<Arc<str>>,
    /// `None` for a span that is no call.
    pub call: Option<Call>,
}

impl Template {
    /// Whether every place that it names is there.
    pub fn is_sound(&self) -> bool {
        let n = self.program.nodes.len();
        let is_number = |at: u8| usize::from(at) < n;
        let is_call_sound = |call: &Call| {
            let pieces = call.record.iter().all(|piece| match piece {
                Piece::Number(at) | Piece::Money(at) | Piece::Time(at) => is_number(*at),
                Piece::Hole(hole) => usize::from(*hole) < super::span::HOLES,
                _ => true,
            });
            let patches = call.patches.iter().all(|patch| {
                patch.end() <= call.row.len()
                    && match patch {
                        Patch::Number(_, at) | Patch::Count(_, at) => is_number(*at),
                        Patch::Fingerprint(_, hole, _) => usize::from(*hole) < super::span::HOLES,
                    }
            });
            pieces
                && patches
                && is_number(call.tokens)
                && call.row.len() >= PARENT_AT + NO_SPAN.len()
        };
        self.program.is_sound() && self.call.as_ref().is_none_or(is_call_sound)
    }

    /// About how many bytes it takes.
    pub fn size(&self) -> usize {
        let call = self.call.as_ref().map_or(0, |call| {
            let texts: usize = call
                .record
                .iter()
                .map(|piece| match piece {
                    Piece::Text(text) => text.len() + 24,
                    _ => 24,
                })
                .sum();
            texts + call.row.len() + call.patches.len() * 24 + 300
        });
        call + self.program.nodes.len() * 32 + self.program.conditions.len() * 4 + 200
    }
}

impl Call {
    /// Write the record's JSON; false where a number is none that it may hold.
    pub fn write_record(
        &self,
        out: &mut Vec<u8>,
        span: &Span,
        varying: &Varying,
        values: &[i128],
        received_at: &[u8],
    ) -> bool {
        for piece in &self.record {
            let is_written = match piece {
                Piece::Text(text) => {
                    out.extend_from_slice(text);
                    true
                }
                Piece::Number(at) => {
                    write::number(out, values[usize::from(*at)]);
                    true
                }
                Piece::Money(at) => write::money(out, values[usize::from(*at)]),
                Piece::Time(at) => write::time(out, values[usize::from(*at)]),
                Piece::TraceId => {
                    write::hex(out, span.trace_id);
                    true
                }
                Piece::SpanId => {
                    write::hex(out, span.span_id);
                    true
                }
                Piece::ParentId => {
                    write::hex(out, span.parent_id);
                    true
                }
                Piece::RecordId => {
                    write::hex(out, &record_id(span));
                    true
                }
                Piece::Hole(hole) => {
                    out.extend_from_slice(varying.holes[usize::from(*hole)]);
                    true
                }
                Piece::ReceivedAt => {
                    out.extend_from_slice(received_at);
                    true
                }
            };
            if !is_written {
                return false;
            }
        }
        true
    }

    /// Write the ledger's row; false where a number has no room in it.
    pub fn write_row(
        &self,
        out: &mut Vec<u8>,
        span: &Span,
        varying: &Varying,
        values: &[i128],
    ) -> bool {
        let begin = out.len();
        out.extend_from_slice(&self.row);
        let row = &mut out[begin..];
        row[..16].copy_from_slice(span.trace_id);
        row[16..PARENT_AT].copy_from_slice(span.span_id);
        row[PARENT_AT..PARENT_AT + 8].copy_from_slice(parent(span));
        for patch in &self.patches {
            match *patch {
                Patch::Number(at, value) => match i64::try_from(values[usize::from(value)]) {
                    Ok(number) => row[at..at + 8].copy_from_slice(&number.to_le_bytes()),
                    Err(_) => return false,
                },
                Patch::Count(at, value) => {
                    match i32::try_from(values[usize::from(value)].min(MOST)) {
                        Ok(number) => row[at..at + 4].copy_from_slice(&number.to_le_bytes()),
                        Err(_) => return false,
                    }
                }
                Patch::Fingerprint(at, hole, changed) => {
                    let number = fingerprint(varying.holes[usize::from(hole)]) ^ changed;
                    row[at..at + 8].copy_from_slice(&number.to_le_bytes());
                }
            }
        }
        true
    }
}

impl Template {
    /// Whether it holds for a span with these numbers; computes them into *values*.
    #[inline]
    pub fn holds(&self, numbers: &Numbers, values: &mut Vec<i128>) -> bool {
        self.program.run(numbers, values)
    }
}

/// The parent's id; zero for a root.
pub fn parent<'a>(span: &Span<'a>) -> &'a [u8] {
    if span.parent_id.is_empty() {
        &[0; 8]
    } else {
        span.parent_id
    }
}

fn record_id(span: &Span) -> [u8; RECORD_ID_BYTES] {
    let mut digest = Sha256::new();
    digest.update(RECORD_DOMAIN);
    digest.update(span.trace_id);
    digest.update(span.span_id);
    let mut id = [0; RECORD_ID_BYTES];
    id.copy_from_slice(&digest.finalize()[..RECORD_ID_BYTES]);
    id
}

/// As `gateway.counting.calls.models.fingerprint`.
pub fn fingerprint(text: &[u8]) -> u64 {
    let digest = Blake2b::<U8>::digest(text);
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest);
    (u64::from_le_bytes(bytes) & (u64::MAX >> 1)).max(1)
}
