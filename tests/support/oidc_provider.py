"""An OpenID provider as a process: discovery, authorization code with PKCE, tokens with real
signatures, keys that change. What it gets wrong is set by a test (`POST /_set`).

`python -m tests.support.oidc_provider` prints its port.
"""

import asyncio
import base64
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from secrets import token_urlsafe
from typing import Any, Final
from urllib.parse import urlencode

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from benchmarks.processes import Process
from benchmarks.scenario import fetch

CLIENT: Final = "telemetry-gateway"
CLIENT_SECRET: Final = "client secret & more"


class Provider:
    def __init__(self) -> None:
        self.issuer = ""
        self.settings: dict[str, Any] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.asked: list[dict[str, Any]] = []
        self.n_keys = 0
        self.rotate()

    def rotate(self) -> None:
        """Another key, of the other kind, under another name."""
        self.n_keys += 1
        self.key: Any = (
            rsa.generate_private_key(65537, 2048) if self.n_keys % 2 else ec.generate_private_key(ec.SECP256R1())
        )

    @property
    def key_id(self) -> str:
        return f"key-{self.n_keys}"

    async def discovery(self, request: web.Request) -> web.Response:
        paths = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
        found = {name: f"{self.issuer}/{path}" for name, path in paths.items()}
        return web.json_response({"issuer": self.issuer, **found, **self.settings.get("discovery", {})})

    async def keys(self, request: web.Request) -> web.Response:
        algorithm = RSAAlgorithm if self.n_keys % 2 else ECAlgorithm
        public = algorithm.to_jwk(self.key.public_key(), as_dict=True)
        oct_key = {"kty": "oct", "k": "AAAA", "kid": "shared"}
        return web.json_response({"keys": [oct_key, {**public, "kid": self.key_id, "use": "sig"}]})

    async def authorize(self, request: web.Request) -> web.Response:
        """Whoever asks is signed in already."""
        query = dict(request.query)
        self.asked.append({"authorize": query})
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        if "refuses" in self.settings:
            back = {"error": self.settings["refuses"], "state": query["state"]}
        else:
            code = token_urlsafe(16)
            self.codes[code] = query
            back = {"code": code, "state": query["state"]}
        raise web.HTTPFound(f"{query['redirect_uri']}?{urlencode(back)}")

    async def token(self, request: web.Request) -> web.Response:
        """RFC 6749 with RFC 7636; a code is used up by the first request."""
        form = dict(await request.post())
        self.asked.append({"token": form})
        secret = base64.b64encode(f"{CLIENT}:client%20secret%20%26%20more".encode()).decode()
        if request.headers.get("Authorization") != f"Basic {secret}":
            return web.json_response({"error": "invalid_client"}, status=401)
        asked = self.codes.pop(str(form["code"]), None)
        challenge = base64.urlsafe_b64encode(sha256(str(form["code_verifier"]).encode()).digest()).decode().rstrip("=")
        if asked is None or challenge != asked["code_challenge"] or form["redirect_uri"] != asked["redirect_uri"]:
            return web.json_response({"error": "invalid_grant"}, status=400)
        return web.json_response({"id_token": self.id_token(asked), "token_type": "Bearer", "access_token": "unused"})

    def id_token(self, asked: dict[str, str]) -> str:
        now = int(time.time())
        claims = {
            "iss": self.issuer, "sub": "user-1", "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"],
            "email": "ann@example.com", "email_verified": True, "groups": ["everyone"],
        }  # fmt: skip
        claims |= self.settings.get("claims", {})
        claims = {name: value for name, value in claims.items() if value is not None}
        match self.settings.get("signed", "right"):
            case "none":
                return jwt.encode(claims, None, algorithm="none")
            case "shared":
                return jwt.encode(claims, CLIENT_SECRET.ljust(32), algorithm="HS256", headers={"kid": self.key_id})
            case "other":
                other = rsa.generate_private_key(65537, 2048)
                return jwt.encode(claims, other, algorithm="RS256", headers={"kid": self.key_id})
            case "unknown":
                return jwt.encode(claims, self.key, algorithm=self.algorithm, headers={"kid": "nobody's"})
            case "cut":
                return jwt.encode(claims, self.key, algorithm=self.algorithm, headers={"kid": self.key_id})[:-8]
            case _:
                return jwt.encode(claims, self.key, algorithm=self.algorithm, headers={"kid": self.key_id})

    @property
    def algorithm(self) -> str:
        return "RS256" if self.n_keys % 2 else "ES256"

    async def set(self, request: web.Request) -> web.Response:
        self.settings = await request.json()
        if self.settings.get("rotates"):
            self.rotate()
        return web.json_response({})

    async def report(self, request: web.Request) -> web.Response:
        return web.json_response(self.asked)


async def listening() -> web.Application:
    provider, app = Provider(), web.Application()
    app.add_routes(
        [
            web.get("/.well-known/openid-configuration", provider.discovery),
            web.get("/keys", provider.keys),
            web.get("/authorize", provider.authorize),
            web.post("/token", provider.token),
            web.post("/_set", provider.set),
            web.get("/_asked", provider.report),
        ]
    )
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    provider.issuer = f"http://127.0.0.1:{port}"
    sys.stdout.write(json.dumps({"port": port}) + "\n")
    sys.stdout.flush()
    return app


class Running:
    """The process, as a test sees it."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer

    def set(self, **settings: Any) -> None:
        """What it does from now on, in place of what was set before."""
        fetch(f"{self.issuer}/_set", method="POST", body=json.dumps(settings).encode())

    def asked(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(fetch(f"{self.issuer}/_asked"))
        return found


@contextmanager
def running_oidc_provider(folder: Path) -> Iterator[Running]:
    process = Process([sys.executable, "-m", "tests.support.oidc_provider"], log=folder / "oidc.log")
    try:
        yield Running(f"http://127.0.0.1:{json.loads(process.read_line())['port']}")
    finally:
        process.kill()


async def _main() -> None:
    await listening()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main())
