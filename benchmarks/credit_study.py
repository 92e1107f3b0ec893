"""The pages of the credit lab and the race: `sparring reproduce credit-lab` or `credit-race`.

    python benchmarks/credit_study.py lab     every estimator against the exact gradient, nine games
    python benchmarks/credit_study.py race    every estimator trains kuhn-tiny; set beside the lab

They write charts and results; `make docs` then draws the pages from the results. With `--quick`
few estimators run for a moment, and nothing that is published is replaced.
"""

import argparse
import sys

from sparring.cli import main

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", choices=("lab", "race"))
    parser.add_argument("--quick", action="store_true", help="two estimators, for a moment")
    given = parser.parse_args()
    size = "--quick" if given.quick else "--publish"
    sys.argv = ["sparring", "reproduce", f"credit-{given.page}", size]
    main()
