#!/usr/bin/env bash
# Writes which functions NVIDIA's libraries have, of CUDA 12 and 13, into runtime/tests/cuda/symbols: from
# their Python packages, 2.5 GB in all, each of which is given back before the next is fetched.
set -euo pipefail
cd "$(dirname "$0")/../tests/cuda/symbols"

list() { # name, prefix, file, packages: the file of the last, with those that it needs
  local folder
  folder=$(mktemp -d)
  python3 -m pip download --quiet --no-deps --dest "$folder" "$4"
  python3 -m zipfile -e "$folder"/*.whl "$folder"
  rm "$folder"/*.whl
  {
    echo "# $4, $3"
    find "$folder" -name "$3" -exec nm -D --defined-only {} + |
      sed -nE "s/.* [TWi] ($2[A-Za-z0-9_]+).*/\1/p" | LC_ALL=C sort -u
  } >"$1.txt"
  rm -rf "$folder"
}

list nvrtc-12 nvrtc libnvrtc.so.12 nvidia-cuda-nvrtc-cu12==12.9.86
list nvrtc-13 nvrtc libnvrtc.so.13 nvidia-cuda-nvrtc==13.0.88
list cublas-12 cublas libcublas.so.12 nvidia-cublas-cu12==12.9.1.4
list cublas-13 cublas libcublas.so.13 nvidia-cublas==13.0.2.14
list cudnn-12 cudnn libcudnn.so.9 nvidia-cudnn-cu12==9.28.0.42
list cudnn-13 cudnn libcudnn.so.9 nvidia-cudnn-cu13==9.28.1.4
