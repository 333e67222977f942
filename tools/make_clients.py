"""Drive every client on semel and on Apache Kafka, and write docs/clients.md.

python tools/make_clients.py            # write
python tools/make_clients.py --check    # exit 1 if the page is not what the clients do

It takes about six minutes, and needs what tools/install_parts.sh installs. The features, and how to add one:
tests/peers/client_table/features.py.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from docs_page import write_or_check
from tests.peers.client_table.driving import made_page

if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="clients-") as folder:
        sys.exit(write_or_check("clients.md", made_page(Path(folder))))
