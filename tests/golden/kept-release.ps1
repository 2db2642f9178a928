#Requires -Version 7.3
# 2 fences of run 18093344127 attempt 2 job 51234567890 on prod, dead (proven), read 02:47:31Z
# Stops at the first refusal. After a stop: `fencectl release` again, no edits.
# 1/2 kustomization/flux-system/infrastructure (child) is left out
# KEPT: Flux would apply main@sha1:9be1c044 again
# 2/2 kustomization/flux-system/flux-system (parent) is left out
# KEPT: Flux would apply main@sha1:9be1c044 again
[Console]::Error.WriteLine('released 0 of 2, 2 KEPT on purpose; check: fencectl fences --context prod')
