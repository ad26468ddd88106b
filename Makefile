# Every target is one script that can also be called by hand; `make` alone lists them.
.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench campaign soak pages site lock

help:   ## this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1	/p' Makefile

setup:  ## .venv with everything the checks and tests need
	@scripts/setup dev

demo:   ## train digits, kill everything halfway, resume, verify the results, release (under 3 minutes)
	@scripts/demo

check:  ## format, lint, types, house, docs, generated pages, Python 3.8 by static check
	@scripts/check

test:   ## check, then at least one test of every promise: about 10 minutes on 2 cores
	@scripts/test

bench:  ## measure, and write docs/performance.md
	@scripts/setup dev
	@.venv/bin/python -m benchmarks

campaign: ## every trial: kills, faults, hostile answers, sweeps; writes docs/reliability.md. Resumes. 1 to 2 hours
	@scripts/setup dev
	@.venv/bin/python -m scripts.campaign

soak:   ## the campaign with more seeds: most of a day
	@scripts/setup dev
	@.venv/bin/python -m scripts.campaign --size soak

pages:  ## write the pages made from code, and collect every page in build/pages
	@scripts/setup dev
	@.venv/bin/python scripts/errors_page.py
	@.venv/bin/python scripts/commands_page.py
	@.venv/bin/python -m scripts.docs_site --pages

site:   ## build the documentation as a website in build/site
	@scripts/setup docs
	@.venv/bin/python -m scripts.docs_site

lock:   ## pin requirements anew
	@scripts/setup dev
	@.venv/bin/python scripts/lock.py
