//! The wire format of protobuf, as strictly as Python's reader at least: what is odd in any way is
//! `Odd`, and Python reads the payload.

/// Not read here. Python decides what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Odd;

pub type Read<T> = Result<T, Odd>;

pub const VARINT: u32 = 0;
pub const FIXED64: u32 = 1;
pub const BYTES: u32 = 2;
pub const FIXED32: u32 = 5;

/// Nesting of values; protobuf itself allows 100 levels.
const MAX_DEPTH: u32 = 24;

/// One field: its number, and its value by wire type.
pub enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32,
}

/// The fields of one message, in order.
pub struct Fields<'a> {
    data: &'a [u8],
}

impl<'a> Fields<'a> {
    pub fn of(data: &'a [u8]) -> Self {
        Fields { data }
    }

    /// The next field, `None` at the end.
    #[inline]
    pub fn next(&mut self) -> Read<Option<(u32, Value<'a>)>> {
        if self.data.is_empty() {
            return Ok(None);
        }
        let tag = u32::try_from(self.varint()?).map_err(|_| Odd)?;
        if tag >> 3 == 0 {
            return Err(Odd);
        }
        let value = match tag & 7 {
            VARINT => Value::Varint(self.varint()?),
            FIXED64 => {
                let bytes = self.take(8)?.try_into().map_err(|_| Odd)?;
                Value::Fixed64(u64::from_le_bytes(bytes))
            }
            BYTES => {
                let size = usize::try_from(self.varint()?).map_err(|_| Odd)?;
                Value::Bytes(self.take(size)?)
            }
            FIXED32 => {
                self.take(4)?;
                Value::Fixed32
            }
            _ => return Err(Odd),
        };
        Ok(Some((tag >> 3, value)))
    }

    #[inline]
    fn varint(&mut self) -> Read<u64> {
        let mut value = 0u64;
        for (n, byte) in self.data.iter().take(10).enumerate() {
            if n == 9 && *byte > 1 {
                return Err(Odd);
            }
            value |= u64::from(byte & 0x7F) << (7 * n);
            if byte & 0x80 == 0 {
                self.data = self.data.get(n + 1..).ok_or(Odd)?;
                return Ok(value);
            }
        }
        Err(Odd)
    }

    #[inline]
    fn take(&mut self, size: usize) -> Read<&'a [u8]> {
        if size > self.data.len() {
            return Err(Odd);
        }
        let (taken, rest) = self.data.split_at(size);
        self.data = rest;
        Ok(taken)
    }
}

#[inline]
pub fn text(bytes: &[u8]) -> Read<&str> {
    std::str::from_utf8(bytes).map_err(|_| Odd)
}

/// Set a field that may stand once.
#[inline]
pub fn once<T>(field: &mut Option<T>, value: T) -> Read<()> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(Odd),
    }
}

/// Name and value of one `KeyValue`, both checked.
#[inline]
pub fn attribute(entry: &[u8], depth: u32) -> Read<(&[u8], &[u8])> {
    let (mut key, mut value) = (None, None);
    let mut fields = Fields::of(entry);
    while let Some((number, found)) = fields.next()? {
        match (number, found) {
            (1, Value::Bytes(bytes)) => once(&mut key, text(bytes)?.as_bytes())?,
            (2, Value::Bytes(bytes)) => once(&mut value, bytes)?,
            _ => return Err(Odd),
        }
    }
    let (key, value) = (key.ok_or(Odd)?, value.ok_or(Odd)?);
    check_value(value, depth)?;
    Ok((key, value))
}

/// Check one `AnyValue` and what is nested in it.
#[inline]
pub fn check_value(value: &[u8], depth: u32) -> Read<()> {
    if depth > MAX_DEPTH {
        return Err(Odd);
    }
    let mut fields = Fields::of(value);
    let mut n = 0;
    while let Some((number, found)) = fields.next()? {
        n += 1;
        match (number, found) {
            (1, Value::Bytes(bytes)) => {
                text(bytes)?;
            }
            (2 | 3, Value::Varint(_)) | (4, Value::Fixed64(_)) | (7, Value::Bytes(_)) => {}
            (5, Value::Bytes(bytes)) => {
                let mut entries = Fields::of(bytes);
                while let Some((number, entry)) = entries.next()? {
                    match (number, entry) {
                        (1, Value::Bytes(bytes)) => check_value(bytes, depth + 2)?,
                        _ => return Err(Odd),
                    }
                }
            }
            (6, Value::Bytes(bytes)) => check_attributes(bytes, 1, depth + 2)?,
            _ => return Err(Odd),
        }
    }
    if n > 1 {
        return Err(Odd);
    }
    Ok(())
}

/// Check a message of which field `number` is attributes and nothing else is of interest.
fn check_attributes(message: &[u8], number: u32, depth: u32) -> Read<()> {
    let mut fields = Fields::of(message);
    while let Some((found, value)) = fields.next()? {
        match value {
            Value::Bytes(bytes) if found == number => {
                attribute(bytes, depth)?;
            }
            _ if found == number => return Err(Odd),
            _ => {}
        }
    }
    Ok(())
}

pub fn check_resource(resource: &[u8]) -> Read<()> {
    check_attributes(resource, 1, 3)
}

/// Check one event of a span: its name is a text, its attributes are such.
pub fn check_event(event: &[u8]) -> Read<()> {
    let mut fields = Fields::of(event);
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (2, Value::Bytes(bytes)) => {
                text(bytes)?;
            }
            (3, Value::Bytes(bytes)) => {
                attribute(bytes, 6)?;
            }
            (2 | 3, _) => return Err(Odd),
            _ => {}
        }
    }
    Ok(())
}

/// Name and version of a scope.
pub fn scope(message: &[u8]) -> Read<(&str, &str)> {
    let (mut name, mut version) = (None, None);
    let mut fields = Fields::of(message);
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (1, Value::Bytes(bytes)) => once(&mut name, text(bytes)?)?,
            (2, Value::Bytes(bytes)) => once(&mut version, text(bytes)?)?,
            (1 | 2, _) => return Err(Odd),
            _ => {}
        }
    }
    Ok((name.unwrap_or(""), version.unwrap_or("")))
}

/// A whole number that is all of an `AnyValue`.
#[inline]
pub fn whole_number(value: &[u8]) -> Option<i64> {
    if value.first() != Some(&0x18) {
        return None;
    }
    let mut fields = Fields::of(value);
    match fields.next() {
        Ok(Some((3, Value::Varint(number)))) => Some(number as i64),
        _ => None,
    }
}

/// A text that is all of an `AnyValue`.
#[inline]
pub fn text_value(value: &[u8]) -> Option<&[u8]> {
    let mut fields = Fields::of(value);
    match fields.next() {
        Ok(Some((1, Value::Bytes(bytes)))) => Some(bytes),
        _ => None,
    }
}
