"""What `--help` says, of the program and of each verb; `{prog}` is the name it was called by."""

from __future__ import annotations

ROOT_HELP = """\
Usage: {prog} COMMAND [OPTIONS]
  Fence a GitOps deploy, show what is still fenced, release it safely.
Look (never writes):
  fences    Report every fence held: holder, evidence, release command
  release   Print the release commands only; it changes nothing itself
  history   Past deploys of a target, and one of them with its timeline
  doctor    Check config, access, GitHub token, clock
  runbook   What to do, with this cluster's values filled in
Act:
  deploy    Apply manifests, or run a command, inside fences
  recover   Release what a provably dead holder left
  rollback  Put back what ran before a deploy
  hold      Place, lift or list a manual hold: no deploy starts under it
Learn:
  demo      The whole story on a cluster inside this program
Start with: {prog} fences
Exit codes: {prog} runbook exit-codes
Options:    --version, --install-completion, -h; all others after the verb
"""

VERB_HELP = {
    "fences": """\
Usage: {prog} fences [OPTIONS]
  Report every fence held. Reads only; reads the whole cluster, always.
  {prog} fences --context prod              what is held, and may it go?
  {prog} fences --exit-code                 a gate: 20 held, 21 incomplete

  --exit-code               Exit 20 if a fence is held (else 0 even then)
  --older-than DURATION     Exit 20 only for one that is held for longer
  --explain                 Say above each command what it guards and changes
  --no-commands             Overview only
  --shell posix|powershell  Quote commands for this shell [default: posix]
  -w, --watch               Refresh in place
Common: --context NAME (repeatable), -o text|json|yaml|markdown|github|
  openmetrics, --config, --kubeconfig, --profile fencectl|ghcr-bridge,
  --request-timeout, --no-color, -v, -h
Every flag is also read from the environment: FENCECTL_FENCES_EXIT_CODE=1
""",
    "release": """\
Usage: {prog} release [OPTIONS] [FENCE...]
  Print the release commands only, in order. It changes nothing itself.
  {prog} release --context prod >release.sh   then: sh release.sh
  {prog} release node/worker-2                one fence, if it may go

  FENCE                     As fences names it: node/NAME, kind/NAMESPACE/NAME
  --holder ID               Only what this holder left (also RUN.ATTEMPT)
  --explain                 Say above each command what it guards and changes
  --shell posix|powershell  Quote commands for this shell [default: posix]
  --output-dir DIR          Write patch files (0600) for kubectl --patch-file
Common: --context NAME, -o text|json, --config, --kubeconfig,
  --profile fencectl|ghcr-bridge, --request-timeout, --no-color, -v, -h
Every flag is also read from the environment: FENCECTL_RELEASE_HOLDER=ID
""",
    "history": """\
Usage: {prog} history [show GENERATION] [OPTIONS]
  Past deploys of a target, newest first; one of them with its timeline.
  {prog} history --context prod             what was deployed, when, by whom
  {prog} history show 42                    what it fenced and what failed

  --limit N                 List so many [default: 20]
The record keeps the newest 50.
Common: --context NAME, -o text|json|yaml|markdown, --config, --kubeconfig,
  --profile fencectl|ghcr-bridge, --request-timeout, --no-color, -v, -h
Every flag is also read from the environment: FENCECTL_HISTORY_LIMIT=5
""",
    "doctor": """\
Usage: {prog} doctor [OPTIONS]
  Check config, access, permissions, GitHub token and clock. Changes nothing.
  {prog} doctor --context prod              is everything there?
  {prog} doctor --rbac report >role.yaml         the least rights that do

  --rbac report|recover|deploy  Print the role that these verbs need
Exit 22 if a check fails; a warning alone is a success.
Common: --context NAME (repeatable), -o text|json, --config, --kubeconfig,
  --profile fencectl|ghcr-bridge, --request-timeout, --no-color, -v, -h
Every flag is also read from the environment: FENCECTL_DOCTOR_RBAC=report
""",
    "runbook": """\
Usage: {prog} runbook [OPTIONS] [NAME]
  What to do, step by step, with this cluster's values filled in. Only reads.
  {prog} runbook                            which there are, what matches now
  {prog} runbook still-fenced               a deploy ended with exit 11
  {prog} runbook exit-codes                 what each exit code means

Without a cluster the text is printed as it stands, and what is not known
stays a placeholder. On a terminal it is rendered, in a pipe it is Markdown.
Common: --context NAME, -o text|markdown|json, --config, --kubeconfig,
  --profile fencectl|ghcr-bridge, --request-timeout, --no-color, -v, -h
Every flag is also read from the environment: FENCECTL_RUNBOOK_OUTPUT=json
""",
    "deploy": """\
Usage: {prog} deploy [OPTIONS] -f PATH | -k DIR | --flux | -- COMMAND
  Apply manifests, let Flux take a revision, or run a command, inside fences:
  lease, Flux suspended, nodes cordoned.
  {prog} deploy -f app/ --dry-run           what would change
  {prog} deploy -- make deploy              a command
  {prog} deploy --node worker-2 -- ./up.sh  and a node

  -f, --filename PATH       A file, a folder, or - for stdin (repeatable)
  -k, --kustomize DIR       Built by the kustomize or kubectl on the PATH
  -n, --namespace NAME      For objects that name none
  --diff                    Show each field that changes, before it does
  --force-conflicts         Take over fields that others own
  --prune                   Delete what was applied and is no longer rendered
  --applyset NAME           What is pruned together [default: LEASE-applyset]
  --allow-partial-prune     Prune also where much is gone, or not all was seen
  --flux FENCE              kind/NAMESPACE/NAME, resumed in step 8 and followed
  --revision REVISION       main@sha1:9be1c04, a tag, a version [default: any]
  --canary PATH             Applied and followed before the rest (step 7)
  --certify COMMAND         Must end with 0 on the canary, and on each rolled
                            node before it is released (FENCECTL_NODE set)
  --allow-uncertified       Go on where nobody could certify; never over a no
  --rollback on-failure|never  Put back what ran before, if it fails
  --rollback-timeout DURATION  How long that may take [default: 10m]
  --suspend FENCE           kind/NAMESPACE/NAME; what applies it is added
  --node NAME               A node to fence (repeatable)
  --node-selector LABELS    Nodes to fence, by label
  --node-command COMMAND    Drain each node and run this, FENCECTL_NODE set
  --max-unavailable N       So many nodes at once [default: 1]
  --lease NS/NAME           The deploy's lease
  --lease-duration DURATION 15s to 300s [default: 30s]
  --drain-timeout DURATION  Wait so long for Flux; 0s: without the proof
  --timeout DURATION        How long step 8 may take [default: 1h]
  --on-rollback keep|resume Suspensions over what went back [default: keep]
  --adopt-kept              Take over what was kept suspended after a rollback
  --wait-for-fences         Wait while a live holder holds them
  --wait-timeout DURATION   Wait so long at most [default: 1h]
  --over-claim              Also where a restore that failed holds the target
  --dry-run                 Print the plan only; manifests are tried
Common: --context NAME (repeatable), -o text|json, --config, --kubeconfig,
  --profile fencectl|ghcr-bridge, --request-timeout, --no-color, -v, -h
Every flag is also read from the environment: FENCECTL_DEPLOY_TIMEOUT=2h
""",
    "recover": """\
Usage: {prog} recover [OPTIONS]
  Release what a provably dead holder left: the whole chain, in order.
  {prog} recover --context prod --dry-run   the plan, nothing changed
  {prog} recover --context prod             asks before it writes
  {prog} recover --context prod --yes       for a CI job

  --dry-run[=server]        Print the plan only; =server has each guard tested
  --holder ID               Only this holder (also RUN.ATTEMPT)
  --all                     Every dead holder, one after the other
  --accept-presumed         Also one that is only presumed dead
  --node-verified NODE      A node in phase mutating that you have checked
  --resume-kept FENCE       A suspension kept after a rollback that may go
  --watch-for DURATION      Watch the heartbeat longer than the 40s it needs
  -y, --yes                 Do not ask
Common: --context NAME, -o text|json|github, --config, --kubeconfig,
  --profile fencectl|ghcr-bridge, --request-timeout, --no-color, -v, -h
Every flag is also read from the environment: FENCECTL_RECOVER_HOLDER=ID
""",
    "rollback": """\
Usage: {prog} rollback [GENERATION] [OPTIONS]
  Put back what ran before a deploy, inside the same fences, and follow it.
  {prog} rollback --context prod --dry-run  what would change
  {prog} rollback 42 --context prod         asks before it writes

  GENERATION                The deploy to undo [default: the newest one]
  --dry-run                 Print what would change, object by object
  --on-rollback keep|resume  Suspensions that would bring the deploy back
                            stay [default], or Flux goes on at once
  --timeout DURATION        How long it may take [default: 10m]
  --lease NS/NAME           The deploy's lease
  --drain-timeout DURATION  Wait so long for Flux; 0s: without the proof
  -y, --yes                 Do not ask
Nothing is deleted. What others have changed since is left, and named.
Common: --context NAME, -o text|json, --config, --kubeconfig,
  --profile fencectl|ghcr-bridge, --request-timeout, --no-color, -v, -h
Every flag is also read from the environment: FENCECTL_ROLLBACK_TIMEOUT=2m
""",
    "hold": """\
Usage: {prog} hold place|lift|list [TYPE] [OPTIONS]
  A hold by hand: no deploy starts, and no recover runs unattended.
  {prog} hold place incident --reason 'INC-2291 checkout' --until 3h
  {prog} hold lift incident                 asks why, and whether, first
  {prog} hold list                          what is held, by whom and why

  TYPE                   freeze, incident or maintenance; lift: also claim
  --reason TEXT          Why. Needed to place, and to lift with --yes
  --until TIME|DURATION  3h, 06:00Z or RFC 3339. Only warns: it stays held
  --lease NS/NAME        For deploys under this lease [default: the target's]
  -y, --yes              Lift without being asked
A hold that is there is not changed: lift it, then place it again. A deploy
that runs already goes on.
Common: --context NAME, -o text|json, --config, --kubeconfig,
  --profile fencectl|ghcr-bridge, --request-timeout, --no-color, -v, -h
Every flag is also read from the environment: FENCECTL_HOLD_REASON=TEXT
""",
    "demo": """\
Usage: {prog} demo [OPTIONS]
  The whole story on a cluster inside this program; nothing else is touched.
  {prog} demo                               Enter goes on after each step

  -y, --yes                 Play it without stops
  --serve                   Keep the cluster up and print its KUBECONFIG
Common: --no-color, -v, -h
""",
}
