# shellcheck shell=bash
# Shared functions of the scripts that build an image from the Dockerfile with an existing program. Source it after
# common.sh. It needs root, podman and readelf, and a directory of the caller's in $work.

# image_options: sets podman, the command, and limits, its options for a container.
# shellcheck disable=SC2034  # the caller uses limits
image_options() {
  # crun refuses machines with both kinds of control groups.
  podman=(podman --runtime runc)
  # Without CAP_SYS_RESOURCE, podman would request higher limits than root has.
  limits=(--ulimit nofile=4096:4096 --ulimit nproc=4096:4096)
  # One overlay cannot be on another, as in a container.
  [ "$(stat --file-system --format %T /var/lib)" != overlayfs ] || export STORAGE_DRIVER=${STORAGE_DRIVER:-vfs}
}

# build_image NAME PROGRAM IMAGE [OPTION…]: builds the image IMAGE of liststore or liststore-operator. PROGRAM replaces
# the Dockerfile's stage `compile`. The options are passed to `podman build`. The directory $image_licences, if it is
# set, is in the image.
build_image() {
  local name=$1 program=$2 image=$3 stage=compile target=() base=scratch context library of_names
  local authorities=/etc/ssl/certs/ca-certificates.crt
  shift 3
  if [ "$name" = liststore-operator ]; then stage=compile-operator target=(--target operator); fi
  # shellcheck disable=SC2154  # the caller sets it
  context=$(mktemp -d "$work/context.XXXXXX")
  mkdir -p "$context"/image/{data,usr/local/bin,usr/share/doc/liststore,etc/ssl/certs}
  cp LICENSE "$context/image/usr/share/doc/liststore/"
  [ -z "${image_licences:-}" ] || cp -r "$image_licences" "$context/image/usr/share/doc/liststore/licences"
  # Programs of other architectures have no debug information, which `strip` of this machine could not remove.
  strip -o "$context/image/usr/local/bin/$name" "$program" 2>/dev/null ||
    cp "$program" "$context/image/usr/local/bin/$name"
  [ -e "$authorities" ] || quiet_apt_install ca-certificates
  cp "$authorities" "$context/image/etc/ssl/certs/ca-certificates.crt"
  echo 'hosts: files dns' >"$context/image/etc/nsswitch.conf"
  if readelf --program-headers "$program" | grep INTERP >/dev/null; then
    # At their own places, where the loader searches. Older C libraries have name resolution in separate files.
    base=libraries
    mkdir "$context/libraries"
    ldd "$program" | grep -o '/[^ ]*' | while IFS= read -r library; do
      cp -L --parents "$library" "$context/libraries"
      for of_names in "${library%/*}"/lib{nss_files,nss_dns,resolv}.so.2; do
        [ "${library##*/}" != libc.so.6 ] || [ ! -e "$of_names" ] || cp -L --parents "$of_names" "$context/libraries"
      done
    done
  fi
  awk -v stage="$stage" '/^FROM .* AS compile/ { skipping = 1 }
       /^FROM / && $4 !~ /^compile/ { skipping = $4 == "operator" && stage == "compile" }
       /^FROM / && $4 == stage { print "FROM scratch AS " stage "\nCOPY image /image" }
       !skipping' Dockerfile >"$context/Dockerfile"
  [ "$base" = scratch ] ||
    sed -i -e 's/^FROM scratch\( AS operator\)\{0,1\}$/FROM libraries\1/' \
      -e '1i FROM scratch AS libraries\nCOPY libraries /' "$context/Dockerfile"
  grep -q '^COPY image /image$' "$context/Dockerfile" || die "the Dockerfile has no stage named $stage"
  [ "$stage" = compile ] || sed -i "/^FROM $base\$/,\$d" "$context/Dockerfile"
  # Only that format supports a health check. No image of each step is kept.
  "${podman[@]}" build --format docker --no-cache --layers=false --force-rm --quiet "${target[@]}" --network none \
    --tag "$image" "$@" "$context" >/dev/null
  rm -rf "$context"
}
