"""Ways in which AI gateways authenticate that cannot send a bare key. Pure."""

SIGNATURES = {"hmac_sha256": ("Helicone-Signature", "sha256"), "hmac_sha1": ("x-vercel-signature", "sha1")}
"""Way in -> its header and hash."""
