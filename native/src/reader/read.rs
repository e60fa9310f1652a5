//! One payload: its spans, each by its template; what no template reads is left to Python.

use std::hash::Hash;
use std::ops::Range;
use std::sync::{Arc, RwLock};

use ahash::{AHashMap, AHashSet};

use super::memory::{Known, Memory, Profile};
use super::program::Numbers;
use super::span::{key_of, Span, Varying};
use super::template::{parent, AiSource, Call, Template, UsedBy};
use super::wire::{check_resource, once, scope, Fields, Odd, Read, Value};

/// Larger parts are bounded by Python (`gateway.read.slices`).
const SLICE_BYTES: usize = 64 * 1024;
/// Traces of one source of AI spans (`gateway.rules.ai_spans`).
const MAX_TRACES: usize = 16;

/// Why Python reads all of a payload that holds such a span: it states something about others, or the
/// answer names its place.
const WHOLE: [&str; 3] = ["bearer", "related", "rejected"];
/// Of more, where they are most of what was read, the rest is not looked at.
const FEW_GAPS: usize = 8;
/// Of a payload that is read together with others: a thousand of them fit into 64 bits.
const MAX_TOKENS: i64 = 1 << 53;

/// What holds for all spans of a payload.
pub struct Request<'a> {
    pub context: u32,
    pub body: &'a [u8],
    pub received_ms: i64,
    pub received_at: &'a [u8],
    pub max_items: usize,
    pub records_scope: &'a str,
    /// At most so many gaps are stated.
    pub max_gaps: usize,
}

/// A span that Python has to read.
pub struct Gap {
    pub resource: Range<usize>,
    pub scope: Range<usize>,
    pub span: Range<usize>,
    /// Calls and links of the payload before it.
    pub calls: usize,
    pub links: usize,
    /// Why; empty where Python may teach a template.
    pub reason: Arc<str>,
    /// Whether another gap of the payload is of the same shape.
    pub is_repeated: bool,
}

/// Sums by key, in the order of first use.
pub struct Sums<K, V> {
    pub entries: Vec<(K, V)>,
    places: AHashMap<K, usize>,
}

impl<K: Hash + Eq + Clone, V: Default> Sums<K, V> {
    fn new() -> Self {
        Sums {
            entries: Vec::new(),
            places: AHashMap::default(),
        }
    }

    /// The sum of *key*; most items have the key of the one before.
    fn of(&mut self, key: &K) -> &mut V {
        if self.entries.last().is_none_or(|(last, _)| last != key) {
            if let Some(place) = self.places.get(key) {
                return &mut self.entries[*place].1;
            }
            self.places.insert(key.clone(), self.entries.len());
            self.entries.push((key.clone(), V::default()));
        }
        let last = self.entries.len() - 1;
        &mut self.entries[last].1
    }
}

#[derive(Default)]
pub struct Reported {
    pub items: usize,
    pub calls: usize,
    pub missing: usize,
}

#[derive(Default)]
pub struct AiSpans {
    pub n: usize,
    pub traces: AHashSet<Vec<u8>>,
}

pub type UsedKey = (Arc<UsedBy>, Vec<u8>);

pub struct Output {
    pub items: usize,
    pub ignored: usize,
    pub suppressed: usize,
    /// All records, one behind the other, and where each ends.
    pub records: Vec<u8>,
    pub ends: Vec<usize>,
    pub rows: Vec<u8>,
    pub links: Vec<u8>,
    pub used: Sums<UsedKey, i64>,
    pub reported: Sums<Option<Arc<str>>, Reported>,
    pub ai_spans: Sums<Arc<AiSource>, AiSpans>,
    pub unpriced: Sums<Arc<str>, usize>,
    pub gaps: Vec<Gap>,
    /// So much is gaps that Python reads all of it; what follows was not read.
    pub is_whole: bool,
}

impl Output {
    /// Whether most of what was read is gaps.
    fn is_mostly_gaps(&self) -> bool {
        2 * self.gaps.len() > self.items
    }

    /// Whether it holds all of its payload, and its sums leave room for those of others.
    pub fn can_be_added(&self) -> bool {
        let mut used = self.used.entries.iter();
        self.gaps.is_empty() && !self.is_whole && used.all(|(_, tokens)| *tokens < MAX_TOKENS)
    }

    /// Add what *one*, which `can_be_added`, holds behind what is here.
    fn add(&mut self, one: Output) {
        let begin = self.records.len();
        self.items += one.items;
        self.ignored += one.ignored;
        self.suppressed += one.suppressed;
        self.records.extend_from_slice(&one.records);
        self.ends.extend(one.ends.iter().map(|end| begin + end));
        self.rows.extend_from_slice(&one.rows);
        self.links.extend_from_slice(&one.links);
        for (key, tokens) in &one.used.entries {
            *self.used.of(key) += tokens;
        }
        for (source, spans) in one.ai_spans.entries {
            let found = self.ai_spans.of(&source);
            found.n += spans.n;
            for trace in spans.traces {
                if found.traces.len() < MAX_TRACES {
                    found.traces.insert(trace);
                }
            }
        }
        for (model, calls) in &one.unpriced.entries {
            *self.unpriced.of(model) += calls;
        }
    }

    fn new(bytes: usize) -> Self {
        Output {
            items: 0,
            ignored: 0,
            suppressed: 0,
            records: Vec::with_capacity(bytes),
            ends: Vec::new(),
            rows: Vec::new(),
            links: Vec::new(),
            used: Sums::new(),
            reported: Sums::new(),
            ai_spans: Sums::new(),
            unpriced: Sums::new(),
            gaps: Vec::new(),
            is_whole: false,
        }
    }
}

/// What one service sent in several payloads.
#[derive(Default)]
pub struct Sent {
    pub requests: usize,
    pub counts: Reported,
    /// Of the payloads, in equal parts where several services share one.
    pub bytes: usize,
}

/// Several payloads, each of which was read whole.
pub struct Together {
    /// Of all of them. What each service reported is in `sent`.
    pub output: Output,
    pub sent: Sums<Option<Arc<str>>, Sent>,
    /// Places of the payloads that are read one by one.
    pub left: Vec<usize>,
}

impl Together {
    pub fn new(bytes: usize) -> Self {
        Together {
            output: Output::new(bytes),
            sent: Sums::new(),
            left: Vec::new(),
        }
    }

    /// Add the payload of *bytes* that *one* is.
    pub fn add(&mut self, one: Output, bytes: usize) {
        let share = bytes / one.reported.entries.len().max(1);
        if one.reported.entries.is_empty() {
            self.sent.of(&None).add(&Reported::default(), share);
        }
        for (service, counts) in &one.reported.entries {
            self.sent.of(service).add(counts, share);
        }
        self.output.add(one);
    }
}

impl Sent {
    fn add(&mut self, counts: &Reported, bytes: usize) {
        self.requests += 1;
        self.counts.items += counts.items.max(counts.calls);
        self.counts.calls += counts.calls;
        self.counts.missing += counts.missing;
        self.bytes += bytes;
    }
}

/// The scope that is read at present.
struct At {
    resource: Range<usize>,
    scope: Range<usize>,
    key: Vec<u8>,
}

struct Reading<'a, 'b> {
    request: &'b Request<'a>,
    memory: &'b RwLock<Memory>,
    is_word: &'b dyn Fn(&[u8]) -> bool,
    out: Output,
    span: Span<'a>,
    varying: Varying<'a>,
    names: Vec<u8>,
    known_names: Vec<u8>,
    profile: Option<(Option<Arc<str>>, Arc<Profile>)>,
    key: Vec<u8>,
    values: Vec<i128>,
    missed: AHashSet<Vec<u8>>,
    left: usize,
}

/// Read *request*; `Odd` where Python has to read all of it.
pub fn read(
    request: &Request,
    memory: &RwLock<Memory>,
    is_word: &dyn Fn(&[u8]) -> bool,
) -> Read<Output> {
    let mut reading = Reading {
        request,
        memory,
        is_word,
        out: Output::new(request.body.len().min(1 << 24)),
        span: Span::default(),
        varying: Varying::default(),
        names: Vec::new(),
        known_names: Vec::new(),
        profile: None,
        key: Vec::new(),
        values: Vec::new(),
        missed: AHashSet::default(),
        left: request.max_items,
    };
    let mut fields = Fields::of(request.body);
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (1, Value::Bytes(bytes)) => reading.resource(bytes)?,
            (1, _) => return Err(Odd),
            _ => {}
        }
    }
    reading.out.is_whole |= reading.out.is_mostly_gaps();
    Ok(reading.out)
}

/// A container's one description, and its children.
fn children(message: &[u8], most: usize) -> Read<(&[u8], Vec<&[u8]>)> {
    let (mut described, mut found) = (None, Vec::new());
    let mut fields = Fields::of(message);
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (1, Value::Bytes(bytes)) => once(&mut described, bytes)?,
            (2, Value::Bytes(bytes)) => found.push(bytes),
            (1 | 2, _) => return Err(Odd),
            _ => {}
        }
        if found.len() > most {
            return Err(Odd);
        }
    }
    Ok((described.unwrap_or(b""), found))
}

impl<'a> Reading<'a, '_> {
    fn take(&mut self, items: usize) -> Read<()> {
        self.left = self.left.checked_sub(items).ok_or(Odd)?;
        Ok(())
    }

    /// Where *part*, a slice of the body, stands in it.
    fn range(&self, part: &[u8]) -> Range<usize> {
        let at = (part.as_ptr() as usize).saturating_sub(self.request.body.as_ptr() as usize);
        at..at + part.len()
    }

    fn resource(&mut self, message: &'a [u8]) -> Read<()> {
        let (resource, scopes) = children(message, self.left)?;
        if resource.len() > SLICE_BYTES {
            return Err(Odd);
        }
        check_resource(resource)?;
        self.take(1 + scopes.len())?;
        let before = self.out.items;
        for scope_spans in scopes {
            self.scope(resource, scope_spans)?;
        }
        if self.out.items == before && !self.out.is_whole {
            return Err(Odd); // its service is counted, and not known here
        }
        Ok(())
    }

    fn scope(&mut self, resource: &'a [u8], message: &'a [u8]) -> Read<()> {
        let (described, spans) = children(message, self.left)?;
        let (name, _) = scope(described)?;
        if described.len() > SLICE_BYTES || name == self.request.records_scope {
            return Err(Odd);
        }
        self.take(spans.len())?;
        let mut key = Vec::with_capacity(resource.len() + described.len() + 12);
        scope_key(self.request.context, resource, described, &mut key);
        let range = if described.is_empty() {
            0..0
        } else {
            self.range(described)
        };
        let at = At {
            resource: if resource.is_empty() {
                0..0
            } else {
                self.range(resource)
            },
            scope: range,
            key,
        };
        self.profile = None;
        for message in spans {
            if self.out.is_whole {
                return Ok(());
            }
            if message.len() > SLICE_BYTES {
                return Err(Odd);
            }
            self.span.read(message)?;
            self.out.items += 1;
            self.one(message, &at)?;
        }
        Ok(())
    }

    /// The span that was walked last.
    fn one(&mut self, message: &[u8], at: &At) -> Read<()> {
        self.find_profile(at)?;
        let Some((service, profile)) = self.profile.clone() else {
            self.names.extend_from_slice(&at.key);
            let names = std::mem::take(&mut self.names);
            return self.gap(message, at, "".into(), names);
        };
        if let Some(reason) = &profile.refused {
            return self.gap(message, at, reason.clone(), Vec::new());
        }
        key_of(
            &self.span,
            &profile.roles,
            profile.reads_name,
            self.is_word,
            &mut self.key,
            &mut self.varying,
        );
        let templates = match profile.known(&self.key) {
            Known::Templates(templates) => templates,
            Known::Refused(reason) => return self.gap(message, at, reason, Vec::new()),
            Known::Nothing => Arc::default(),
        };
        let numbers = Numbers {
            counts: &self.varying.counts,
            start_ns: self.span.start_ns,
            end_ns: self.span.end_ns,
            received_ms: self.request.received_ms,
        };
        let values = &mut self.values;
        match templates
            .iter()
            .find(|template| template.holds(&numbers, values))
        {
            Some(template) if template.refused.is_some() => {
                let reason = template.refused.clone().unwrap_or_default();
                self.gap(message, at, reason, Vec::new())
            }
            Some(template) => {
                self.out.reported.of(&service).items += 1;
                self.fill(template)
            }
            None => {
                let mut key = std::mem::take(&mut self.key);
                key.extend_from_slice(&self.known_names);
                self.gap(message, at, "".into(), key)
            }
        }
    }

    /// Spans of one scope mostly have the names of the span before.
    fn find_profile(&mut self, at: &At) -> Read<()> {
        self.span.names_into(&mut self.names);
        if self.profile.is_some() && self.names == self.known_names {
            return Ok(());
        }
        self.profile = self
            .memory
            .read()
            .map_err(|_| Odd)?
            .profile(&at.key, &self.names);
        self.known_names.clone_from(&self.names);
        Ok(())
    }

    /// Leave the span to Python; *shape* distinguishes it from gaps of other shapes.
    fn gap(&mut self, message: &[u8], at: &At, reason: Arc<str>, shape: Vec<u8>) -> Read<()> {
        let n = self.out.gaps.len();
        if WHOLE.contains(&&*reason) {
            self.out.is_whole = true;
        } else if n >= self.request.max_gaps || (n >= FEW_GAPS && self.out.is_mostly_gaps()) {
            self.out.is_whole = true;
            return Ok(());
        }
        let is_repeated = !reason.is_empty() || !self.missed.insert(shape);
        let gap = Gap {
            resource: at.resource.clone(),
            scope: at.scope.clone(),
            span: self.range(message),
            calls: self.out.ends.len(),
            links: self.out.links.len(),
            reason,
            is_repeated,
        };
        self.out.gaps.push(gap);
        Ok(())
    }

    fn fill(&mut self, template: &Template) -> Read<()> {
        self.out.ignored += usize::from(template.is_ignored);
        self.out.suppressed += usize::from(template.is_suppressed);
        if let Some(source) = &template.ai_source {
            let found = self.out.ai_spans.of(source);
            found.n += 1;
            if found.traces.len() < MAX_TRACES {
                found.traces.insert(self.span.trace_id.to_vec());
            }
        }
        match &template.call {
            Some(call) => self.call(call),
            None => {
                let links = &mut self.out.links;
                links.extend_from_slice(self.span.trace_id);
                links.extend_from_slice(self.span.span_id);
                links.extend_from_slice(parent(&self.span));
                Ok(())
            }
        }
    }

    fn call(&mut self, call: &Call) -> Read<()> {
        let (out, values, varying) = (&mut self.out, &self.values, &self.varying);
        let received_at = self.request.received_at;
        if !call.write_record(&mut out.records, &self.span, varying, values, received_at)
            || !call.write_row(&mut out.rows, &self.span, varying, values)
        {
            return Err(Odd);
        }
        out.ends.push(out.records.len());
        let session = call
            .used_by
            .session_hole
            .map_or(&b""[..], |hole| varying.holes[usize::from(hole)]);
        let tokens = i64::try_from(values[usize::from(call.tokens)]).map_err(|_| Odd)?;
        let used = out.used.of(&(call.used_by.clone(), session.to_vec()));
        *used = used.checked_add(tokens).ok_or(Odd)?;
        let reported = out.reported.of(&call.service);
        reported.calls += 1;
        reported.missing += usize::from(call.is_missing);
        if let Some(model) = &call.unpriced {
            *out.unpriced.of(model) += 1;
        }
        Ok(())
    }
}

/// What a scope's spans are known by.
pub fn scope_key(context: u32, resource: &[u8], scope: &[u8], key: &mut Vec<u8>) {
    key.clear();
    key.extend_from_slice(&context.to_le_bytes());
    key.extend_from_slice(&(resource.len() as u32).to_le_bytes());
    key.extend_from_slice(resource);
    key.extend_from_slice(scope);
}
