//! What Python sees of the extension. Each part exports itself.

use pyo3::prelude::*;

mod ledger;
mod reader;
mod table;
mod tally;

/// What the gateway asks for: `gateway/common/native.py` uses no extension with another number.
const INTERFACE: u32 = 9;

#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("INTERFACE", INTERFACE)?;
    reader::export(module)?;
    ledger::export(module)?;
    tally::export(module)
}
