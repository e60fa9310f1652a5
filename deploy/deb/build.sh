#!/bin/sh
# Builds telemetry-gateway_VERSION_ARCH.deb into the folder $1 (dist/): the wheel with everything that requirements.lock
# pins, in /usr/lib/telemetry-gateway; with the native reader where cargo is, which TELEMETRY_GATEWAY_BUILD=native demands. Needs dpkg-deb and uv; PYTHON (python3) is of the version that the target has.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
out=${1:-$root/dist}
uv=${UV:-$root/.venv/bin/uv}
python=$("$uv" python find --system --no-python-downloads "${PYTHON:-python3}")
minor=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
next=$("$python" -c 'import sys; print("%d.%d" % (sys.version_info[0], sys.version_info[1] + 1))')
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/pyproject.toml")
architecture=$(dpkg --print-architecture)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
package=$work/telemetry-gateway
home=$package/usr/lib/telemetry-gateway
site=$home/lib/python$minor/site-packages

umask 022
mkdir -p "$package/DEBIAN" "$home/bin" "$site" "$package/usr/bin" "$package/usr/lib/systemd/system" \
  "$package/etc/telemetry-gateway" "$package/usr/share/doc/telemetry-gateway" "$package/usr/share/lintian/overrides"

"$uv" build --quiet --wheel --no-build-isolation --python "$root/.venv/bin/python" --out-dir "$work" "$root"
"$uv" pip install --quiet --python "$python" --target "$site" --require-hashes --no-build -r "$root/requirements.lock"
"$uv" pip install --quiet --python "$python" --target "$site" --no-deps "$work"/*.whl
PYTHONPATH=$site "$python" -c 'from gateway.common.native import READER, WHY_NOT, described; print("reader:", described(READER, WHY_NOT))'
rm -rf "$site/bin" "$site/.lock"
find "$site" -name __pycache__ -prune -exec rm -rf {} +
find "$site" -name '*.so' -exec strip --strip-unneeded {} + 2>/dev/null || true
find "$package" -type f -exec chmod 0644 {} +

# A virtual environment of the target's own Python, so that the parser process finds the libraries by itself.
printf 'home = /usr/bin\ninclude-system-site-packages = false\nversion = %s\n' "$minor" > "$home/pyvenv.cfg"
ln -s "/usr/bin/python$minor" "$home/bin/python3"
cat > "$home/bin/telemetry-gateway" <<'PROGRAM'
#!/usr/lib/telemetry-gateway/bin/python3
import sys

from gateway.cli.main import main

sys.exit(main())
PROGRAM
chmod 0755 "$home/bin/telemetry-gateway"
ln -s ../lib/telemetry-gateway/bin/telemetry-gateway "$package/usr/bin/telemetry-gateway"

cp "$root/deploy/systemd/telemetry-gateway.service" "$package/usr/lib/systemd/system/"
cp "$root/deploy/deb/gateway.yaml" "$root/deploy/deb/environment" "$package/etc/telemetry-gateway/"
chmod 0640 "$package/etc/telemetry-gateway/gateway.yaml" "$package/etc/telemetry-gateway/environment"
cp "$root/deploy/deb/copyright" "$package/usr/share/doc/telemetry-gateway/copyright"
cp "$root/deploy/deb/lintian-overrides" "$package/usr/share/lintian/overrides/telemetry-gateway"
printf 'telemetry-gateway (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md of the project.\n\n -- AI telemetry gateway <gateway@localhost>  %s\n' \
  "$version" "$(date -R)" | gzip -9n > "$package/usr/share/doc/telemetry-gateway/changelog.gz"

cat > "$package/DEBIAN/control" <<CONTROL
Package: telemetry-gateway
Version: $version
Architecture: $architecture
Maintainer: AI telemetry gateway <gateway@localhost>
Section: net
Priority: optional
Installed-Size: $(du -sk "$package" | cut -f1)
Depends: python3 (>= $minor), python3 (<< $next), python$minor, adduser, libc6
Description: receives AI telemetry, counts every call once, forwards it
 Senders point OpenTelemetry exporters, callbacks of AI gateways, usage events
 and device heartbeats at it. It turns every AI call into one record, counts it
 once, keeps it on disk before it acknowledges it, and forwards batches to a
 cost management service under scoped API keys.
CONTROL
printf '/etc/telemetry-gateway/gateway.yaml\n/etc/telemetry-gateway/environment\n' > "$package/DEBIAN/conffiles"
for script in postinst prerm postrm; do
  cp "$root/deploy/deb/$script" "$package/DEBIAN/$script"
  chmod 0755 "$package/DEBIAN/$script"
done
(cd "$package" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | sort -z | xargs -0 md5sum > DEBIAN/md5sums)

mkdir -p "$out"
dpkg-deb --root-owner-group -Zxz -z3 --build "$package" "$out/telemetry-gateway_${version}_${architecture}.deb"
