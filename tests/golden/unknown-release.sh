#!/bin/sh
# 5 fences of run 18093344127 attempt 2 job 51234567890 on prod, unknown, read 02:47:31Z
# Stops at the first refusal. After a stop: `fencectl release` again, no edits.
# check: gh run view 18093344127 --repo acme/platform --attempt 2
# NOT PROVEN DEAD: run these only if the check above says `completed`
set -eu
trap 'test $? = 0 || echo "stopped: this fence and all after it are held" >&2' 0
# 1/5 node/worker-3: drop the mark; it was cordoned before, so it stays so
#   if      uid 0c6f1d1e…, holder and journal are as read at 02:47:31Z,
#           spec.unschedulable is true
#   then    remove holder and journal
#   result  no mark left
echo '1/5 node/worker-3: drop the mark; it was cordoned before, so it stays so' >&2
kubectl --context prod patch node worker-3 --type=json --field-manager=fencectl -p '[{"op":"test","path":"/metadata/uid","value":"0c6f1d1e-5b7a-4f5e-9a37-3f1f6f2f8d11"},{"op":"test","path":"/metadata/annotations/fencectl.dev~1holder","value":"4f2a91c07be3d855-gh18093344127.2-j51234567890-9c41e07a"},{"op":"test","path":"/metadata/annotations/fencectl.dev~1journal","value":"{\"v\":1,\"holder\":\"4f2a91c07be3d855-gh18093344127.2-j51234567890-9c41e07a\",\"uid\":\"0c6f1d1e-5b7a-4f5e-9a37-3f1f6f2f8d11\",\"seq\":5,\"at\":\"2026-11-30T01:46:33Z\",\"phase\":\"claimed\",\"prior\":{\"unschedulable\":true,\"taints\":[]},\"reason\":\"deploy 42\"}"},{"op":"test","path":"/spec/unschedulable","value":true},{"op":"remove","path":"/metadata/annotations/fencectl.dev~1holder"},{"op":"remove","path":"/metadata/annotations/fencectl.dev~1journal"}]'
# 2/5 node/worker-2: uncordon (it was schedulable before), drop the mark
#   if      uid 7f0f4a0d…, holder and journal are as read at 02:47:31Z,
#           spec.unschedulable is true
#   then    remove spec.unschedulable, holder and journal
#   result  spec.unschedulable absent; no mark left
echo '2/5 node/worker-2: uncordon (it was schedulable before), drop the mark' >&2
kubectl --context prod patch node worker-2 --type=json --field-manager=fencectl -p '[{"op":"test","path":"/metadata/uid","value":"7f0f4a0d-6c0e-4d0b-8f39-51c1c9a5b2e4"},{"op":"test","path":"/metadata/annotations/fencectl.dev~1holder","value":"4f2a91c07be3d855-gh18093344127.2-j51234567890-9c41e07a"},{"op":"test","path":"/metadata/annotations/fencectl.dev~1journal","value":"{\"v\":1,\"holder\":\"4f2a91c07be3d855-gh18093344127.2-j51234567890-9c41e07a\",\"uid\":\"7f0f4a0d-6c0e-4d0b-8f39-51c1c9a5b2e4\",\"seq\":4,\"at\":\"2026-11-30T01:46:31Z\",\"phase\":\"claimed\",\"prior\":{\"unschedulable\":false,\"taints\":[]},\"reason\":\"deploy 42\"}"},{"op":"test","path":"/spec/unschedulable","value":true},{"op":"remove","path":"/spec/unschedulable"},{"op":"remove","path":"/metadata/annotations/fencectl.dev~1holder"},{"op":"remove","path":"/metadata/annotations/fencectl.dev~1journal"}]'
# 3/5 kustomization/flux-system/infrastructure (child): resume, drop the mark
#   if      uid 2b9f6b8c…, holder and journal are as read at 02:47:31Z,
#           reconcile annotation is disabled, spec.suspend is true
#   then    remove spec.suspend, reconcile annotation, holder and journal
#   result  spec.suspend absent; reconcile annotation absent; no mark left; Flux
#           reconciles it, then every 10m
echo '3/5 kustomization/flux-system/infrastructure (child): resume, drop the mark' >&2
kubectl --context prod -n flux-system patch kustomizations.kustomize.toolkit.fluxcd.io infrastructure --type=json --field-manager=fencectl -p '[{"op":"test","path":"/metadata/uid","value":"2b9f6b8c-91de-4c39-bb0a-6a3d5b0f7c52"},{"op":"test","path":"/metadata/annotations/fencectl.dev~1holder","value":"4f2a91c07be3d855-gh18093344127.2-j51234567890-9c41e07a"},{"op":"test","path":"/metadata/annotations/fencectl.dev~1journal","value":"{\"v\":1,\"holder\":\"4f2a91c07be3d855-gh18093344127.2-j51234567890-9c41e07a\",\"uid\":\"2b9f6b8c-91de-4c39-bb0a-6a3d5b0f7c52\",\"seq\":3,\"at\":\"2026-11-30T01:32:09Z\",\"phase\":\"suspended\",\"prior\":{\"suspend\":null,\"reconcile\":null},\"reason\":\"deploy 42\"}"},{"op":"test","path":"/metadata/annotations/kustomize.toolkit.fluxcd.io~1reconcile","value":"disabled"},{"op":"test","path":"/spec/suspend","value":true},{"op":"remove","path":"/spec/suspend"},{"op":"remove","path":"/metadata/annotations/kustomize.toolkit.fluxcd.io~1reconcile"},{"op":"remove","path":"/metadata/annotations/fencectl.dev~1holder"},{"op":"remove","path":"/metadata/annotations/fencectl.dev~1journal"}]'
# 4/5 kustomization/flux-system/flux-system (parent): resume, drop the mark
#   if      uid e1c3a2f4…, holder and journal are as read at 02:47:31Z,
#           reconcile annotation is disabled, spec.suspend is true
#   then    remove spec.suspend, reconcile annotation, holder and journal
#   result  spec.suspend absent; reconcile annotation absent; no mark left; Flux
#           reconciles it, then every 10m
echo '4/5 kustomization/flux-system/flux-system (parent): resume, drop the mark' >&2
kubectl --context prod -n flux-system patch kustomizations.kustomize.toolkit.fluxcd.io flux-system --type=json --field-manager=fencectl -p '[{"op":"test","path":"/metadata/uid","value":"e1c3a2f4-0d5b-4a7e-a9f1-77d2c1b60a93"},{"op":"test","path":"/metadata/annotations/fencectl.dev~1holder","value":"4f2a91c07be3d855-gh18093344127.2-j51234567890-9c41e07a"},{"op":"test","path":"/metadata/annotations/fencectl.dev~1journal","value":"{\"v\":1,\"holder\":\"4f2a91c07be3d855-gh18093344127.2-j51234567890-9c41e07a\",\"uid\":\"e1c3a2f4-0d5b-4a7e-a9f1-77d2c1b60a93\",\"seq\":2,\"at\":\"2026-11-30T01:32:07Z\",\"phase\":\"suspended\",\"prior\":{\"suspend\":null,\"reconcile\":null},\"reason\":\"deploy 42\"}"},{"op":"test","path":"/metadata/annotations/kustomize.toolkit.fluxcd.io~1reconcile","value":"disabled"},{"op":"test","path":"/spec/suspend","value":true},{"op":"remove","path":"/spec/suspend"},{"op":"remove","path":"/metadata/annotations/kustomize.toolkit.fluxcd.io~1reconcile"},{"op":"remove","path":"/metadata/annotations/fencectl.dev~1holder"},{"op":"remove","path":"/metadata/annotations/fencectl.dev~1journal"}]'
# 5/5 lease/flux-system/fencectl-deploy: free it; last, only after 1 to 4
#   if      uid a94d7c10…, spec.holderIdentity and spec.renewTime are as read at
#           02:47:31Z
#   then    set spec.holderIdentity to empty; set spec.leaseDurationSeconds to
#           1; remove journal
#   result  spec.holderIdentity empty; spec.leaseDurationSeconds 1; no mark left
echo '5/5 lease/flux-system/fencectl-deploy: free it' >&2
kubectl --context prod -n flux-system patch leases.coordination.k8s.io fencectl-deploy --type=json --field-manager=fencectl -p '[{"op":"test","path":"/metadata/uid","value":"a94d7c10-3e58-4b1f-8d64-2f0c9be5d7a6"},{"op":"test","path":"/spec/holderIdentity","value":"4f2a91c07be3d855-gh18093344127.2-j51234567890-9c41e07a"},{"op":"test","path":"/spec/renewTime","value":"2026-11-30T01:47:02.118204Z"},{"op":"replace","path":"/spec/holderIdentity","value":""},{"op":"replace","path":"/spec/leaseDurationSeconds","value":1},{"op":"remove","path":"/metadata/annotations/fencectl.dev~1journal"}]'
echo 'released 5 of 5; check: fencectl fences --context prod' >&2
