"""OpenLIT (`openlit.instrumentation.<library>`): GenAI names with the provider's own numbers.

1. The input is the provider's own: Anthropic's and Bedrock's leave the cache out. So is the output:
   Google's leaves the thoughts out.
"""

from gateway.normalise.conventions.basis import native_input, native_output
from gateway.normalise.conventions.table import Convention

OPENLIT = Convention("openlit", own={}, basis=native_input, output_basis=native_output)
