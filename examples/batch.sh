#!/bin/sh
# A batch job that counts words; submit it as one job or as an array:
#
#   xcecli jobs submit -n count -c 1 -m 64MiB -t 1m -- sh "$PWD/examples/batch.sh" /usr/share/dict
#   xcecli jobs submit -n 'count[1-10]%2' -- sh "$PWD/examples/batch.sh" /etc
#   xcecli jobs logs -f ID
set -eu
folder=${1:-/etc}
echo "job $XCE_JOB, run $XCE_RUN on $XCE_HOST: words of files below $folder"
find "$folder" -maxdepth 1 -type f -readable -exec cat {} + | wc -w
