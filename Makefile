# `make demo` and `make test` do all the set-up they need, on a machine with Python and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test quick matrix checkpoints clean

demo: $(VENV)/installed
	$(BIN)/iclzoo demo -o demo.png

test: $(VENV)/installed-test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile

# The tests of what is not committed yet, without the slow ones.
quick: $(VENV)/installed-test
	$(BIN)/python tests/quick.py

# Every model with every instrument, every task with every algorithm and with training, and a checkpoint of every model with every instrument.
matrix: $(VENV)/installed-test
	$(BIN)/python -m pytest --numprocesses auto tests/test_matrix.py

# Train every shipped checkpoint again, from its recipe; a run that was cut short goes on. docs/performance.md says how long each takes.
checkpoints: $(VENV)/installed
	for name in $$($(BIN)/python -c "import iclzoo; print(*iclzoo.list_recipes())"); do $(MAKE) checkpoint-$$name || exit 1; done

checkpoint-%: $(VENV)/installed
	$(BIN)/iclzoo train $* -o runs/$* --resume
	$(BIN)/python -c "from iclzoo.zoo.storage.checkpoint import copy_checkpoint as copy; copy('runs/$*', 'checkpoints/$*', overwrite=True)"

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/installed-test: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	touch $@

clean:
	rm -rf $(VENV) runs demo.png
