//! One span, walked: what varies, and the key of what repeats.

use memchr::memmem::Finder;
use std::sync::LazyLock;

use super::wire::{attribute, check_event, once, text, text_value, whole_number};
use super::wire::{Fields, Odd, Read, Value};

pub const TRACE_BYTES: usize = 16;
pub const SPAN_BYTES: usize = 8;
/// Texts that vary from call to call: the ids of response and request, and the session.
pub const HOLES: usize = 3;
/// A text of more bytes is no hole.
const MAX_HOLE_BYTES: usize = 128;
const MAX_ATTRIBUTES: usize = 512;
/// Of a map as a value: field 6, with a length.
const KVLIST_TAG: u8 = 0x32;
/// An object that begins so early is JSON.
const BEGIN_BYTES: usize = 32;

/// What the value of an attribute is to its span's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// No rule reads it.
    Unread,
    /// It decides the template.
    Key,
    /// A count of tokens, by number; the template computes with it.
    Count(u8),
    /// A text that varies, by number.
    Hole(u8),
    /// Read only where that hole has no text.
    Behind(u8),
    /// Searched for an object of usage; most texts hold none, and are as if unread.
    Searched,
}

/// A span of a payload, with the parts that a record is made of.
#[derive(Default)]
pub struct Span<'a> {
    pub trace_id: &'a [u8],
    pub span_id: &'a [u8],
    /// Empty where the span is a root.
    pub parent_id: &'a [u8],
    pub name: &'a [u8],
    pub kind: u64,
    pub start_ns: u64,
    pub end_ns: u64,
    pub status: u64,
    pub has_events: bool,
    pub attributes: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Span<'a> {
    /// Walk *message*; the vector of attributes is used again.
    pub fn read(&mut self, message: &'a [u8]) -> Read<()> {
        let (mut trace, mut span, mut parent) = (None, None, None);
        let (mut name, mut kind, mut start, mut end, mut status) = (None, None, None, None, None);
        self.attributes.clear();
        self.has_events = false;
        let mut fields = Fields::of(message);
        while let Some((number, value)) = fields.next()? {
            match (number, value) {
                (1, Value::Bytes(bytes)) => once(&mut trace, bytes)?,
                (2, Value::Bytes(bytes)) => once(&mut span, bytes)?,
                (4, Value::Bytes(bytes)) => once(&mut parent, bytes)?,
                (5, Value::Bytes(bytes)) => once(&mut name, text(bytes)?.as_bytes())?,
                (6, Value::Varint(number)) => once(&mut kind, number)?,
                (7, Value::Fixed64(number)) => once(&mut start, number)?,
                (8, Value::Fixed64(number)) => once(&mut end, number)?,
                (9, Value::Bytes(bytes)) => self.attributes.push(attribute(bytes, 4)?),
                (11, Value::Bytes(bytes)) => {
                    check_event(bytes)?;
                    self.has_events = true;
                }
                (15, Value::Bytes(bytes)) => once(&mut status, status_code(bytes)?)?,
                (1 | 2 | 4..=9 | 11 | 15, _) => return Err(Odd),
                _ => {}
            }
        }
        self.trace_id = id(trace.unwrap_or(b""), TRACE_BYTES)?.ok_or(Odd)?;
        self.span_id = id(span.unwrap_or(b""), SPAN_BYTES)?.ok_or(Odd)?;
        self.parent_id = match parent {
            None | Some(b"") => b"",
            Some(bytes) => id(bytes, SPAN_BYTES)?.unwrap_or(b""),
        };
        self.name = name.unwrap_or(b"");
        self.kind = small(kind)?;
        self.status = small(status)?;
        self.start_ns = start.unwrap_or(0);
        self.end_ns = end.unwrap_or(0);
        if self.attributes.len() > MAX_ATTRIBUTES {
            return Err(Odd);
        }
        Ok(())
    }

    /// The names of the attributes, as a key.
    pub fn names_into(&self, key: &mut Vec<u8>) {
        key.clear();
        for (name, _) in &self.attributes {
            key.extend_from_slice(&(name.len() as u32).to_le_bytes());
            key.extend_from_slice(name);
        }
    }

    /// Whether two attributes have one name: the last one wins, which Python's reader sees to.
    pub fn repeats_a_name(&self) -> bool {
        let mut names: Vec<&[u8]> = self.attributes.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.windows(2).any(|pair| pair[0] == pair[1])
    }
}

/// What varies from one span of a shape to the next, beside its ids and times.
#[derive(Default)]
pub struct Varying<'a> {
    /// By number of the count; 0 where the span has none.
    pub counts: Vec<i64>,
    pub holes: [&'a [u8]; HOLES],
}

/// Write the key of what repeats in *span*, and note what varies.
pub fn key_of<'a>(
    span: &Span<'a>,
    roles: &[Role],
    reads_name: bool,
    is_word: &dyn Fn(&[u8]) -> bool,
    key: &mut Vec<u8>,
    varying: &mut Varying<'a>,
) {
    key.clear();
    varying.counts.clear();
    varying.holes = [b""; HOLES];
    let flags = u8::from(!span.parent_id.is_empty()) | u8::from(span.has_events) << 1;
    key.push(flags);
    key.extend_from_slice(&span.status.to_le_bytes());
    key.extend_from_slice(&span.kind.to_le_bytes());
    if reads_name {
        push(key, span.name);
    }
    for (role, (_, value)) in roles.iter().zip(&span.attributes) {
        match role {
            Role::Unread | Role::Behind(_) => {}
            Role::Key => push(key, value),
            Role::Count(number) => match whole_number(value) {
                Some(count) => {
                    let at = usize::from(*number);
                    if varying.counts.len() <= at {
                        varying.counts.resize(at + 1, 0);
                    }
                    varying.counts[at] = count;
                    key.push(b'i');
                }
                None => {
                    key.push(b'v');
                    push(key, value);
                }
            },
            Role::Searched => key.push(if may_state_usage(value) { b's' } else { b'p' }),
            Role::Hole(number) => match text_value(value) {
                Some(text) if is_hole(text) && !is_word(text) => {
                    varying.holes[usize::from(*number)] = text;
                    key.push(b'h');
                }
                _ => {
                    key.push(b'v');
                    push(key, value);
                }
            },
        }
    }
    for (role, (_, value)) in roles.iter().zip(&span.attributes) {
        if let Role::Behind(number) = role {
            if varying.holes[usize::from(*number)].is_empty() {
                push(key, value);
            }
        }
    }
}

fn push(key: &mut Vec<u8>, bytes: &[u8]) {
    key.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    key.extend_from_slice(bytes);
}

/// What the name of a count of tokens holds in any spelling.
static TOKENS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"oken"));

/// Whether a rule may find an object in the value; as `gateway.rules.texts.may_hold_object`.
fn may_state_usage(value: &[u8]) -> bool {
    match text_value(value) {
        Some(text) => may_hold_object(text),
        None => value.first() == Some(&KVLIST_TAG),
    }
}

fn may_hold_object(text: &[u8]) -> bool {
    let is_space = |byte: &&u8| matches!(**byte, b' ' | b'\t'..=b'\r');
    let is_word = |byte: &&u8| byte.is_ascii_alphanumeric() || b"_.".contains(*byte);
    text[..text.len().min(BEGIN_BYTES)].contains(&b'{')
        || text.iter().find(|byte| !is_space(byte)) == Some(&b'{')
        || text.iter().find(|byte| !is_word(byte)) == Some(&b'(')
        || TOKENS.find(text).is_some()
}

/// Whether *text* is a name as `gateway.rules.record` takes any; JSON writes such as they are.
fn is_hole(text: &[u8]) -> bool {
    (1..=MAX_HOLE_BYTES).contains(&text.len())
        && text
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.:/$#@+=-".contains(byte))
}

fn status_code(message: &[u8]) -> Read<u64> {
    let mut code = None;
    let mut fields = Fields::of(message);
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (3, Value::Varint(number)) => once(&mut code, number)?,
            (3, _) => return Err(Odd),
            _ => {}
        }
    }
    Ok(code.unwrap_or(0))
}

/// An id of *size* bytes; `None` where it is all zero.
fn id(bytes: &[u8], size: usize) -> Read<Option<&[u8]>> {
    if bytes.len() != size {
        return Err(Odd);
    }
    Ok(bytes.iter().any(|byte| *byte != 0).then_some(bytes))
}

fn small(number: Option<u64>) -> Read<u64> {
    match number {
        Some(number) if number > i32::MAX as u64 => Err(Odd),
        number => Ok(number.unwrap_or(0)),
    }
}
