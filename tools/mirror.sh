#!/usr/bin/env bash
# Prints the address of the Debian mirror that this machine's own apt sources name; nothing where they name none.
set -euo pipefail
command -v apt-get >/dev/null || exit 0
apt-get indextargets --format '$(REPO_URI) $(ORIGIN)' 'Created-By: Packages' 'Component: main' |
    awk '$2 == "Debian" && $1 !~ /security/ && !found { print $1; found = 1 }'
