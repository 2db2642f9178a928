#!/bin/sh
# 5 fences of run 18093344127 attempt 2 job 51234567890 on prod, dead (proven), read 02:47:31Z
# Stops at the first refusal. After a stop: `fencectl release` again, no edits.
set -eu
trap 'test $? = 0 || echo "stopped: this fence and all after it are held" >&2' 0
# 1/5 node/worker-3 REFUSED: phase mutating since 01:46:40Z: its node command may be half done, see `fencectl fences`
# 2/5 node/worker-2 is still held
# 3/5 kustomization/flux-system/infrastructure is still held
# 4/5 kustomization/flux-system/flux-system is still held
# 5/5 lease/flux-system/fencectl-deploy is still held
exit 19   # nothing is printed after a refusal, so nothing can be run past it
