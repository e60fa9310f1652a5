"""An OpenID provider: where its endpoints are, its keys, and the tokens that it gives for a code.

Signatures and times are checked by PyJWT; what else is compared is in `claims_of`. Discovery
is read once an hour. The keys are read again whenever a token names one that is not known, for
providers replace them.
"""

import base64
import hmac
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

import aiohttp
import jwt
import orjson

from exporters.secret import Secret
from gateway.config.sign_in import Oidc, is_safe_url
from gateway.operate.oidc.pending import Pending

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Of signatures by a private key. HS256 has the client's secret as its key; `none` has none."""
PUBLIC_KINDS: Final = frozenset({"RSA", "EC", "OKP"})
REQUIRED: Final = ("iss", "sub", "aud", "exp", "iat")
LEEWAY_S: Final = 60
MAX_BYTES: Final = 1 << 20
DISCOVERY_S: Final = 3600.0
WELL_KNOWN: Final = "/.well-known/openid-configuration"
TIMEOUT: Final = aiohttp.ClientTimeout(total=10)


class OidcFault(Exception):
    """Why nobody is signed in, in words for the person; it quotes nothing that was sent."""


class Endpoints(NamedTuple):
    authorization: str
    token: str
    keys: str
    takes_basic: bool
    """Whether the client's secret may be sent as Basic; else in the form."""


class Provider:
    def __init__(
        self,
        options: Oidc,
        secret: Secret | None,
        session: Callable[[], aiohttp.ClientSession],
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """*secret*: of the client; None for a public one. *session*: follows no redirect, keeps no
        cookie.
        """
        self._options = options
        self._secret = secret
        self._session = session
        self._monotonic_s = monotonic_s
        self._endpoints: Endpoints | None = None
        self._read_s = float("-inf")
        self._keys: dict[str | None, jwt.PyJWK] = {}

    async def authorization_url(self, pending: Pending) -> str:
        """Where the browser is sent. Raises OidcFault."""
        options = self._options
        asked = {
            "response_type": "code",
            "client_id": options.client_id,
            "redirect_uri": options.redirect_uri,
            "scope": " ".join(options.scopes),
            "state": pending.state,
            "nonce": pending.nonce,
            "code_challenge": pending.challenge,
            "code_challenge_method": "S256",
        }
        url = (await self._discovered()).authorization
        return f"{url}{'&' if '?' in url else '?'}{urlencode(asked)}"

    async def claims(self, code: str, pending: Pending) -> Mapping[str, Any]:
        """Those of the ID token that *code* is exchanged for. Raises OidcFault."""
        endpoints = await self._discovered()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._options.redirect_uri,
            "code_verifier": pending.verifier,
            "client_id": self._options.client_id,
        }
        headers = {"Accept": "application/json"}
        if self._secret is not None and endpoints.takes_basic:
            headers["Authorization"] = basic(self._options.client_id, self._secret.reveal())
        elif self._secret is not None:
            form["client_secret"] = self._secret.reveal()
        answer = await self._json("POST", endpoints.token, headers=headers, data=form)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise OidcFault("the identity provider's answer has no ID token")
        return claims_of(token, await self._key_of(token, endpoints), self._options, pending.nonce)

    # ---- what the provider states of itself

    async def _discovered(self) -> Endpoints:
        now_s = self._monotonic_s()
        if self._endpoints is None or now_s - self._read_s > DISCOVERY_S:
            document = await self._json("GET", self._options.issuer.rstrip("/") + WELL_KNOWN)
            self._endpoints, self._read_s = endpoints_of(document, self._options.issuer), now_s
        return self._endpoints

    async def _key_of(self, token: str, endpoints: Endpoints) -> jwt.PyJWK:
        """The key that signed *token*, by its name. Raises OidcFault."""
        key_id = header_of(token).get("kid")
        if key_id not in self._keys:
            self._keys = keys_in(await self._json("GET", endpoints.keys))
        found = self._keys.get(key_id)
        if found is None and key_id is None and len(self._keys) == 1:
            (found,) = self._keys.values()
        if found is None:
            raise OidcFault("the identity provider's token is signed with a key that it does not publish")
        return found

    async def _json(self, method: str, url: str, **sent: Any) -> Mapping[str, Any]:
        try:
            async with self._session().request(method, url, allow_redirects=False, timeout=TIMEOUT, **sent) as answer:
                body = await read_at_most(answer.content, MAX_BYTES)
                found = orjson.loads(body) if answer.ok else None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise OidcFault("the identity provider cannot be asked now; try again later") from error
        if not isinstance(found, dict):
            raise OidcFault("the identity provider refused what this gateway asked; see its log")
        return found


async def read_at_most(stream: aiohttp.StreamReader, most: int) -> bytes:
    """Raises ValueError beyond *most*."""
    body = bytearray()
    async for piece in stream.iter_any():
        body += piece
        if len(body) > most:
            raise ValueError("the answer is too large")
    return bytes(body)


def basic(client_id: str, secret: str) -> str:
    """RFC 6749, 2.3.1: both are form-encoded first."""
    return "Basic " + base64.b64encode(f"{quote(client_id, safe='')}:{quote(secret, safe='')}".encode()).decode()


def endpoints_of(document: Mapping[str, Any], issuer: str) -> Endpoints:
    """Raises OidcFault for a document of another issuer, and for addresses that are not safe."""
    if document.get("issuer") != issuer:
        raise OidcFault("the identity provider names another issuer than sign_in.oidc.issuer")
    urls = [document.get(name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")]
    if not all(isinstance(url, str) and is_safe_url(url) for url in urls):
        raise OidcFault("the identity provider's addresses are missing, or are neither https nor on loopback")
    methods = document.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
    authorization, token, keys = map(str, urls)
    return Endpoints(authorization, token, keys, takes_basic="client_secret_basic" in methods)


def keys_in(document: Mapping[str, Any]) -> dict[str | None, jwt.PyJWK]:
    """By name; keys that cannot check a signature are left out."""
    found: dict[str | None, jwt.PyJWK] = {}
    for each in document.get("keys") or ():
        if isinstance(each, dict) and each.get("kty") in PUBLIC_KINDS and each.get("use", "sig") == "sig":
            try:
                found[each.get("kid")] = jwt.PyJWK(each)
            except jwt.PyJWTError:
                continue
    return found


def header_of(token: str) -> Mapping[str, Any]:
    """Raises OidcFault for what is no token, or is signed otherwise than by a private key."""
    try:
        header = jwt.get_unverified_header(token)
    except jwt.PyJWTError as error:
        raise OidcFault("the identity provider's ID token cannot be read") from error
    if header.get("alg") not in ALGORITHMS:
        raise OidcFault("the identity provider's ID token is not signed with a private key")
    return header


def claims_of(token: str, key: jwt.PyJWK, options: Oidc, nonce: str) -> Mapping[str, Any]:
    """OpenID Connect Core, 3.1.3.7. Raises OidcFault."""
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=[str(header_of(token)["alg"])],
            audience=options.client_id,
            issuer=options.issuer,
            leeway=LEEWAY_S,
            options={"require": list(REQUIRED)},
        )
    except jwt.PyJWTError as error:
        raise OidcFault(f"the identity provider's ID token is not valid: {fault_name(error)}") from error
    is_of_us = not isinstance(claims["aud"], list) or len(claims["aud"]) == 1 or claims.get("azp") == options.client_id
    if not is_of_us or claims.get("azp", options.client_id) != options.client_id:
        raise OidcFault("the identity provider's ID token is for another client")
    if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
        raise OidcFault("the identity provider's ID token is of another sign-in")
    return claims


def fault_name(error: jwt.PyJWTError) -> str:
    """The class in words: `expired signature`."""
    name = type(error).__name__.removesuffix("Error")
    return "".join(f" {char.lower()}" if char.isupper() else char for char in name).strip()
