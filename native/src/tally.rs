//! `gateway/usage/sums/tally.py` in Rust: sums of records by series, of one page at a time.
//!
//! A record is read strictly: what is unusual in any way (escapes in names, numbers of another form,
//! a member twice, a time beyond now) is handed back by its index, and Python decides about it.
//! So is a failed call that cost something, which is summed apart as well. So whatever is summed here,
//! Python would sum alike.

use std::collections::HashMap;
use std::sync::LazyLock;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

/// A count beyond it is no count (`tally._MAX_COUNT`).
const MAX_COUNT: u64 = 1 << 40;
/// Digits of an amount before and after the point: beyond them Python rounds or refuses.
const WHOLE_DIGITS: usize = 11;
const ATTO_DIGITS: usize = 18;
const INPUT_ONLY: [&str; 2] = ["embeddings", "rerank"];
const HOUR_CHARS: usize = 13;
const MAX_DEPTH: usize = 16;
const NAMES: usize = 13;
/// Of `gateway/usage/sums/latency.py`: buckets of a doubling, the last one, and what is added for
/// the time to the first token.
const PER_DOUBLING: usize = 8;
const LAST_BUCKET: usize = 27 * PER_DOUBLING;
const FIRST_TOKEN: usize = 256;

/// The record is one for Python.
struct Odd;
type Read<T> = Result<T, Odd>;

fn odd_unless(is_so: bool) -> Read<()> {
    if is_so {
        Ok(())
    } else {
        Err(Odd)
    }
}

/// A position in JSON without blanks, as the gateway writes it.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Read<u8> {
        self.text.as_bytes().get(self.at).copied().ok_or(Odd)
    }

    fn take(&mut self, byte: u8) -> Read<()> {
        odd_unless(self.peek()? == byte)?;
        self.at += 1;
        Ok(())
    }

    fn takes(&mut self, byte: u8) -> bool {
        let is_there = matches!(self.peek(), Ok(found) if found == byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn word(&mut self, word: &str) -> Read<()> {
        odd_unless(self.text.as_bytes()[self.at..].starts_with(word.as_bytes()))?;
        self.at += word.len();
        Ok(())
    }

    fn null(&mut self) -> bool {
        matches!(self.peek(), Ok(b'n')) && self.word("null").is_ok()
    }

    /// A string without escapes.
    fn string(&mut self) -> Read<&'a str> {
        self.take(b'"')?;
        let start = self.at;
        for (length, byte) in self.text.as_bytes()[start..].iter().enumerate() {
            match byte {
                b'"' => {
                    self.at = start + length + 1;
                    return self.text.get(start..start + length).ok_or(Odd);
                }
                b'\\' | 0..0x20 => return Err(Odd),
                _ => {}
            }
        }
        Err(Odd)
    }

    /// A string with any escape but that of a code point, which may be half a pair.
    fn text_of_any(&mut self) -> Read<()> {
        self.take(b'"')?;
        loop {
            match self.peek()? {
                b'"' => return self.take(b'"'),
                b'\\' => {
                    self.at += 1;
                    odd_unless(matches!(
                        self.peek()?,
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't'
                    ))?;
                }
                0..0x20 => return Err(Odd),
                _ => {}
            }
            self.at += 1;
        }
    }

    fn name(&mut self) -> Read<Option<&'a str>> {
        if self.null() {
            return Ok(None);
        }
        self.string().map(Some)
    }

    /// An integer of at most 18 digits; a sign is odd.
    fn digits(&mut self) -> Read<u64> {
        let start = self.at;
        let mut value = 0;
        while let Ok(digit @ b'0'..=b'9') = self.peek() {
            odd_unless(self.at - start < 18)?;
            value = value * 10 + u64::from(digit - b'0');
            self.at += 1;
        }
        let length = self.at - start;
        odd_unless(length > 0 && (length == 1 || self.text.as_bytes()[start] != b'0'))?;
        Ok(value)
    }

    /// A plausible count; None for another integer and for null.
    fn count(&mut self) -> Read<Option<u64>> {
        if self.null() {
            return Ok(None);
        }
        let value = self.digits()?;
        odd_unless(!matches!(self.peek(), Ok(b'.' | b'e' | b'E')))?;
        Ok(Some(value).filter(|count| *count <= MAX_COUNT))
    }

    fn skip(&mut self, depth: usize) -> Read<()> {
        odd_unless(depth < MAX_DEPTH)?;
        match self.peek()? {
            b'"' => self.text_of_any(),
            b'n' => self.word("null"),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'{' => self.members(|cursor, _| cursor.skip(depth + 1)).map(|_| ()),
            b'[' => self.items(depth),
            _ => self.number(),
        }
    }

    fn items(&mut self, depth: usize) -> Read<()> {
        self.take(b'[')?;
        if self.takes(b']') {
            return Ok(());
        }
        loop {
            self.skip(depth + 1)?;
            if !self.takes(b',') {
                return self.take(b']');
            }
        }
    }

    fn number(&mut self) -> Read<()> {
        self.takes(b'-');
        self.digits()?;
        if self.takes(b'.') {
            let start = self.at;
            while matches!(self.peek(), Ok(b'0'..=b'9')) {
                self.at += 1;
            }
            odd_unless((1..=18).contains(&(self.at - start)))?;
        }
        odd_unless(!matches!(self.peek(), Ok(b'e' | b'E')))
    }

    /// Reads each member's value by *read*, which gets the member's name; how many there are.
    fn members(&mut self, mut read: impl FnMut(&mut Self, &'a str) -> Read<()>) -> Read<usize> {
        self.take(b'{')?;
        if self.takes(b'}') {
            return Ok(0);
        }
        let mut n = 0;
        loop {
            let name = self.string()?;
            self.take(b':')?;
            read(self, name)?;
            n += 1;
            if !self.takes(b',') {
                self.take(b'}')?;
                return Ok(n);
            }
        }
    }
}

/// A member that must not come twice.
#[derive(Default, Clone, Copy)]
struct Once<T>(Option<T>);

impl<T> Once<T> {
    fn set(&mut self, value: T) -> Read<()> {
        odd_unless(self.0.replace(value).is_none())
    }
}

impl<T> Once<Option<T>> {
    fn known(self) -> Option<T> {
        self.0.flatten()
    }
}

type Name<'a> = Once<Option<&'a str>>;
type Count = Once<Option<u64>>;

#[derive(Default)]
struct Usage<'a> {
    status: Name<'a>,
    input: Count,
    output: Count,
    cache_read: Count,
    cache_creation: Count,
    reasoning: Count,
}

#[derive(Default)]
struct Who<'a> {
    team: Name<'a>,
    project: Name<'a>,
    user: Name<'a>,
    device_id: Name<'a>,
    service_name: Name<'a>,
    key: Name<'a>,
}

#[derive(Clone, Copy)]
struct Cost<'a> {
    atto: i128,
    currency: &'a str,
    source: Option<&'a str>,
}

#[derive(Default)]
struct Record<'a> {
    kind: Name<'a>,
    is_billed: Once<bool>,
    operation: Name<'a>,
    provider: Name<'a>,
    request_model: Name<'a>,
    response_model: Name<'a>,
    started_at: Name<'a>,
    status: Name<'a>,
    calls: Count,
    duration: Count,
    first_token: Count,
    usage: Once<Usage<'a>>,
    cost: Once<Option<Cost<'a>>>,
    who: Once<Who<'a>>,
    format: Once<Option<&'a str>>,
}

impl Record<'_> {
    fn is_failed(&self) -> bool {
        self.status.known() == Some("error")
    }
}

fn read_record(text: &str) -> Read<Record<'_>> {
    let mut record = Record::default();
    let mut cursor = Cursor { text, at: 0 };
    cursor.members(|value, name| match name {
        "kind" => record.kind.set(value.name()?),
        "billed" => record.is_billed.set(read_billed(value)?),
        "operation" => record.operation.set(value.name()?),
        "provider" => record.provider.set(value.name()?),
        "request_model" => record.request_model.set(value.name()?),
        "response_model" => record.response_model.set(value.name()?),
        "started_at" => record.started_at.set(value.name()?),
        "status" => record.status.set(value.name()?),
        "calls" => record.calls.set(value.count()?),
        "duration_ms" => record.duration.set(value.count()?),
        "time_to_first_token_ms" => record.first_token.set(value.count()?),
        "usage" => record.usage.set(read_usage(value)?),
        "cost" => record.cost.set(read_cost(value)?),
        "attribution" => record.who.set(read_who(value)?),
        "source" => record.format.set(read_format(value)?),
        _ => value.skip(1),
    })?;
    odd_unless(cursor.at == text.len())?;
    Ok(record)
}

fn read_billed(value: &mut Cursor<'_>) -> Read<bool> {
    if matches!(value.peek()?, b't') {
        return value.word("true").map(|()| true);
    }
    value.word("false").map(|()| false)
}

fn read_usage<'a>(value: &mut Cursor<'a>) -> Read<Usage<'a>> {
    let mut usage = Usage::default();
    value.members(|value, name| match name {
        "status" => usage.status.set(value.name()?),
        "input_tokens" => usage.input.set(value.count()?),
        "output_tokens" => usage.output.set(value.count()?),
        "cache_read_input_tokens" => usage.cache_read.set(value.count()?),
        "cache_creation_input_tokens" => usage.cache_creation.set(value.count()?),
        "reasoning_output_tokens" => usage.reasoning.set(value.count()?),
        _ => value.skip(2),
    })?;
    Ok(usage)
}

fn read_who<'a>(value: &mut Cursor<'a>) -> Read<Who<'a>> {
    let mut who = Who::default();
    if value.null() {
        return Ok(who);
    }
    value.members(|value, name| match name {
        "team" => who.team.set(value.name()?),
        "project" => who.project.set(value.name()?),
        "user" => who.user.set(value.name()?),
        "device_id" => who.device_id.set(value.name()?),
        "service_name" => who.service_name.set(value.name()?),
        "key" => who.key.set(value.name()?),
        _ => value.skip(2),
    })?;
    Ok(who)
}

fn read_format<'a>(value: &mut Cursor<'a>) -> Read<Option<&'a str>> {
    let mut format = Name::default();
    if value.null() {
        return Ok(None);
    }
    value.members(|value, name| match name {
        "format" => format.set(value.name()?),
        _ => value.skip(2),
    })?;
    Ok(format.known())
}

fn read_cost<'a>(value: &mut Cursor<'a>) -> Read<Option<Cost<'a>>> {
    if value.null() {
        return Ok(None);
    }
    let (mut amount, mut currency, mut source) =
        (Name::default(), Name::default(), Name::default());
    value.members(|value, name| match name {
        "amount" => amount.set(value.name()?),
        "currency" => currency.set(value.name()?),
        "source" => source.set(value.name()?),
        _ => value.skip(2),
    })?;
    let atto = atto_of(amount.known().ok_or(Odd)?)?;
    Ok(Some(Cost {
        atto,
        currency: currency.known().ok_or(Odd)?,
        source: source.known(),
    }))
}

/// 1e-18 of the unit, of an amount that needs no rounding.
fn atto_of(amount: &str) -> Read<i128> {
    let (is_negative, digits) = match amount.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, amount),
    };
    let (whole, part) = match digits.split_once('.') {
        Some((whole, part)) => (whole, part),
        None => (digits, ""),
    };
    odd_unless((1..=WHOLE_DIGITS).contains(&whole.len()) && part.len() <= ATTO_DIGITS)?;
    odd_unless(whole.len() == digits.len() || !part.is_empty())?;
    let mut atto = 0;
    for digit in whole.bytes().chain(part.bytes()) {
        odd_unless(digit.is_ascii_digit())?;
        atto = atto * 10 + i128::from(digit - b'0');
    }
    atto *= 10_i128.pow((ATTO_DIGITS - part.len()) as u32);
    Ok(if is_negative { -atto } else { atto })
}

/// Hour and names of a series, as the record has them (`Tally._add`).
type Series<'a> = [Option<&'a str>; NAMES];

/// As `tally.SUM_NAMES` has them.
#[derive(Default, IntoPyObject)]
struct Sums(
    u64,
    u64,
    u64,
    u64,
    u64,
    u64,
    Tokens,
    Tokens,
    Tokens,
    Tokens,
    Tokens,
    Tokens,
    Tokens,
    i128,
);
type Tokens = Option<u64>;

fn add(sum: &mut Tokens, tokens: Tokens) {
    if let Some(tokens) = tokens {
        *sum = Some(sum.unwrap_or(0) + tokens);
    }
}

impl Sums {
    fn add(&mut self, record: &Record<'_>, usage: &Usage<'_>, cost: Option<Cost<'_>>) {
        let is_call = record.kind.known() == Some("call");
        let calls = if is_call {
            1
        } else {
            record.calls.known().unwrap_or(0)
        };
        let (input, output) = (usage.input.known(), usage.output.known());
        let cache_read = usage.cache_read.known();
        self.0 += calls;
        let is_failed = record.is_failed();
        if is_failed {
            self.1 += calls;
        }
        self.2 += u64::from(is_call && input.is_none() && output.is_none());
        self.3 += u64::from(is_call && !is_failed && usage.status.known() == Some("missing"));
        self.4 += u64::from(is_call && cost.is_none());
        let is_input_only = record
            .operation
            .known()
            .is_some_and(|name| INPUT_ONLY.contains(&name));
        if cost.is_none() && input.is_some() && (output.is_some() || is_input_only) {
            self.5 += calls.max(1);
        }
        add(&mut self.6, input);
        add(&mut self.7, output);
        add(&mut self.8, cache_read);
        add(&mut self.9, usage.cache_creation.known());
        add(&mut self.10, usage.reasoning.known());
        if let (Some(input), Some(cache_read)) = (input, cache_read) {
            add(&mut self.11, Some(input));
            add(&mut self.12, Some(cache_read.min(input)));
        }
        self.13 += cost.map_or(0, |cost| cost.atto);
    }
}

/// The last whole millisecond of each bucket.
static BOUNDS: LazyLock<Vec<u64>> = LazyLock::new(|| {
    let bound = |n: usize| {
        let part = 2_f64.powf((n % PER_DOUBLING) as f64 / PER_DOUBLING as f64);
        ((1_u64 << (n / PER_DOUBLING)) as f64 * part) as u64
    };
    (0..=LAST_BUCKET).map(bound).collect()
});

/// Calls by bucket.
#[derive(Default)]
struct Latency(Vec<(usize, u32)>);

impl Latency {
    fn add(&mut self, record: &Record<'_>) {
        if record.kind.known() != Some("call") || record.is_failed() {
            return;
        }
        for (ms, first) in [
            (record.duration.known(), 0),
            (record.first_token.known(), FIRST_TOKEN),
        ] {
            if let Some(ms) = ms {
                let bucket = BOUNDS.partition_point(|bound| *bound < ms).min(LAST_BUCKET);
                self.count(first + bucket);
            }
        }
    }

    fn count(&mut self, bucket: usize) {
        match self.0.iter_mut().find(|(known, _)| *known == bucket) {
            Some((_, calls)) => *calls += 1,
            None => self.0.push((bucket, 1)),
        }
    }
}

fn series_of<'a>(record: &Record<'a>, cost: Option<Cost<'a>>, now_hour: &str) -> Read<Series<'a>> {
    let hour = record
        .started_at
        .known()
        .and_then(|text| text.get(..HOUR_CHARS))
        .ok_or(Odd)?;
    odd_unless(hour.is_ascii() && hour <= now_hour)?;
    let model = record
        .response_model
        .known()
        .filter(|name| !name.is_empty());
    let nobody = Who::default();
    let who = record.who.0.as_ref().unwrap_or(&nobody);
    Ok([
        Some(hour),
        record.provider.known(),
        model.or(record.request_model.known()),
        who.team.known(),
        who.project.known(),
        who.user.known(),
        who.device_id.known(),
        who.service_name.known(),
        who.key.known(),
        record.operation.known(),
        record.format.known(),
        cost.map(|cost| cost.currency),
        cost.and_then(|cost| cost.source),
    ])
}

#[derive(Default)]
struct Page<'a> {
    found: Vec<(Series<'a>, Sums, Latency)>,
    places: HashMap<Series<'a>, usize>,
    last: usize,
}

impl<'a> Page<'a> {
    fn add(&mut self, record: &'a [u8], now_hour: &str) -> Read<()> {
        let record = read_record(std::str::from_utf8(record).map_err(|_| Odd)?)?;
        if record.is_billed.0 == Some(false) {
            return Ok(());
        }
        let usage = record.usage.0.as_ref().ok_or(Odd)?;
        odd_unless(record.kind.0.is_some())?;
        let cost = record.cost.known();
        odd_unless(!record.is_failed() || cost.is_none_or(|cost| cost.atto == 0))?;
        let series = series_of(&record, cost, now_hour)?;
        let (_, sums, latency) = self.found_of(series);
        sums.add(&record, usage, cost);
        latency.add(&record);
        Ok(())
    }

    /// Records of one series often follow each other.
    fn found_of(&mut self, series: Series<'a>) -> &mut (Series<'a>, Sums, Latency) {
        if self
            .found
            .get(self.last)
            .is_none_or(|(last, _, _)| *last != series)
        {
            self.last = *self.places.entry(series).or_insert_with(|| {
                self.found
                    .push((series, Sums::default(), Latency::default()));
                self.found.len() - 1
            });
        }
        &mut self.found[self.last]
    }
}

type Calls = Vec<(usize, u32)>;
type Summed<'py> = (Vec<(Bound<'py, PyTuple>, Sums, Calls)>, Vec<usize>);

/// The sums of *records* by series, with their calls by bucket of latency, and the indexes of those that Python has to read.
///
/// A series is the hour and the names, as records have them; *now_hour*: the current one. The GIL
/// is kept: a page takes less than a thread waits for it.
#[pyfunction]
fn sum_usage<'py>(
    py: Python<'py>,
    records: Vec<Bound<'py, PyBytes>>,
    now_hour: &str,
) -> PyResult<Summed<'py>> {
    let mut page = Page::default();
    let mut odd = Vec::new();
    for (i, record) in records.iter().enumerate() {
        if page.add(record.as_bytes(), now_hour).is_err() {
            odd.push(i);
        }
    }
    let found = page
        .found
        .into_iter()
        .map(|(series, sums, latency)| Ok((PyTuple::new(py, series)?, sums, latency.0)));
    Ok((found.collect::<PyResult<_>>()?, odd))
}

pub fn export(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(sum_usage, module)?)
}
