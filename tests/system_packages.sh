#!/usr/bin/env bash
# Installs what tests need beyond Python packages: system_packages.sh test|test-all. Debian and Ubuntu, as root or by sudo.
# Where it may not, it says the command, and the tests that need a package are skipped with it.
set -uo pipefail
packages=(adb ccache g++ openssh-server chromium libvulkan1 mesa-vulkan-drivers vulkan-tools)
if [[ "$1" == test-all ]]; then
  packages+=(clang default-jre-headless gcc-aarch64-linux-gnu g++-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)
fi
command -v apt-get >/dev/null && command -v dpkg-query >/dev/null || exit 0
missing=()
for package in "${packages[@]}"; do
  [[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" == installed ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0
install=(apt-get install -y --no-install-recommends "${missing[@]}")
if ((EUID == 0)); then
  as=()
elif command -v sudo >/dev/null && { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
  echo "tests/system_packages.sh: sudo ${install[*]}" >&2
  as=(sudo)
else
  echo "tests/system_packages.sh: some tests will be skipped; to run them too: sudo ${install[*]}" >&2
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
"${as[@]}" apt-get update -qq && "${as[@]}" "${install[@]}" >/dev/null ||
  echo "tests/system_packages.sh: ${missing[*]} could not be installed; the tests that need them will be skipped." >&2
exit 0
