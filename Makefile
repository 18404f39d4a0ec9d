# Glovebox: one Makefile, non-recursive; `make help` lists the targets.
#
# Sources are found by folder: src/<module>/*.c becomes $(B)/lib/lib<module>.a,
# and each program names the archives it is linked from. A new file needs no
# line here, a new folder only a word in a link list. Flavours (asan, ubsan,
# tsan, cover, fuzz) build in a directory of their own.

VERSION := 0.1.0
B       ?= build
FLAVOUR ?= release
PREFIX  ?= /usr/local
JOBS    ?= $(shell nproc)
V       ?= 0

CC       ?= gcc
PYTHON   := /usr/bin/python3
RUNTIMES := minimal standard
FUZZ_SECONDS ?= 60

# Parallel unless the caller chose; recipes of run and test stay sequential.
ifeq (0,$(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)))
MAKEFLAGS += -j$(JOBS)
endif
MAKEFLAGS += --no-print-directory --no-builtin-rules
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:

say = $(if $(filter 0,$(V)),@printf '  %-5s %s\n' '$1' '$2';)

# --- Flags ---------------------------------------------------------------

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
	-Wpointer-arith -Wformat=2 -Wswitch-enum -Wwrite-strings -Wundef -Werror
BRANCH := $(if $(filter x86_64,$(shell uname -m)),-fcf-protection)
HARDEN := -fstack-protector-strong -fstack-clash-protection $(BRANCH)

release_FLAGS := -O2 -D_FORTIFY_SOURCE=3
asan_FLAGS    := -O1 -fno-omit-frame-pointer -DGLOVEBOX_DEBUG \
	-fsanitize=address
ubsan_FLAGS   := -O1 -fno-omit-frame-pointer -DGLOVEBOX_DEBUG \
	-fsanitize=undefined -fno-sanitize-recover=all
tsan_FLAGS    := -O1 -fno-omit-frame-pointer -DGLOVEBOX_DEBUG \
	-fsanitize=thread
cover_FLAGS   := -O0 --coverage -fprofile-update=atomic
# Only clang can fuzz; the warnings that count are gcc's.
fuzz_FLAGS    := -O1 -fno-omit-frame-pointer -w \
	-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
ifeq (,$($(FLAVOUR)_FLAGS))
$(error no such flavour: $(FLAVOUR))
endif

COMMON  := -std=gnu17 -g -pipe $(WARN) $(HARDEN) -Isrc -D_GNU_SOURCE \
	-DGLOVEBOX_VERSION='"$(VERSION)"'
COMPILE  = $(CC) $(COMMON) $($(FLAVOUR)_FLAGS) -fPIE -MMD -MP $(CFLAGS)
LINK     = $(CC) $($(FLAVOUR)_FLAGS) -g -pie -Wl,-z,relro,-z,now,--as-needed \
	$(CFLAGS) $(LDFLAGS)

# The extension is loaded by an uninstrumented python3 of any version from
# 3.9 on, so it is built plain in every flavour and for the stable ABI. The
# headers are Debian's whatever else is on the path.
EXT_COMPILE = $(CC) $(COMMON) $(release_FLAGS) -fPIC -fvisibility=hidden -MMD \
	-MP -DPy_LIMITED_API=0x03090000 \
	$(patsubst -I%,-isystem %,$(shell $(PYTHON)-config --includes)) $(CFLAGS)
EXT_LINK    = $(CC) -g -shared -Wl,-z,relro,-z,now,--exclude-libs,ALL $(LDFLAGS)

# --- Sources -------------------------------------------------------------

SRCS := $(wildcard src/*/*.c src/*/*/*.c)
objs  = $(patsubst src/%.c,$(B)/obj/%.o,$(filter $1,$(SRCS)))

# One archive per folder. The warden's and the proxy's hold both sides of a
# privilege boundary and so make two each.
SPLIT    := cmd kernel warden egress
FOLDERS  := $(filter-out $(SPLIT),$(patsubst src/%/,%,$(wildcard src/*/)))
ARCHIVES := $(FOLDERS:%=$(B)/lib/lib%.a) \
	$(B)/lib/libwarden-call.a $(B)/lib/libwarden-serve.a \
	$(B)/lib/libegress.a $(B)/lib/libegress-serve.a
$(foreach f,$(FOLDERS),$(eval $(B)/lib/lib$f.a: $(call objs,src/$f/%)))
CALL_SIDE := $(call objs,src/warden/call%)
$(B)/lib/libwarden-call.a: $(CALL_SIDE)
$(B)/lib/libwarden-serve.a: $(filter-out $(CALL_SIDE),$(call objs,src/warden/%))

ASK_SIDE := $(call objs,src/egress/call% src/egress/host%)
$(B)/lib/libegress.a: $(ASK_SIDE)
$(B)/lib/libegress-serve.a: $(filter-out $(ASK_SIDE),$(call objs,src/egress/%))

have = $(filter $(ARCHIVES),$(1:%=$(B)/lib/lib%.a))

# --- Link lists: what each process can do, because nothing else is in it ---

# The only privileged process: no HTTP, no JSON, no YAML, no SQL, no crypto
# library, no Python. Of base and sandbox it takes the objects it calls.
WARDEN      := $(call have,warden-serve sandbox wire base)
WARDEN_LIBS := -lseccomp

# Parses everything from outside, owns the store, holds no privilege. It can
# ask the warden (call side) but has none of the answers, and no sandbox code.
DAEMON      := $(call have,service doors posture search session pool box workspace core govern approval evidence vault egress \
	warden-call policy quota \
	auth audit http fetch blob store disk api json conf wire base) \
	$(B)/lib/libmicrohttpd.a
DAEMON_LIBS := -lgnutls -ljansson -lcyaml -lyaml -lsqlite3 -larchive -lcurl -lcrypto -lidn2 -pthread

# Talks to the world for sessions, under an account of its own: TLS, names, and
# nothing of the service. No store, no JSON, no key of ours, no way to ask the
# warden.
EGRESS      := $(call have,egress-serve egress wire base)
EGRESS_LIBS := -lssl -lcrypto -lcares -lidn2 -lseccomp

# A client. It starts the daemon as a program, it is not linked to it.
# Of policy, auth and audit it takes what needs no store: checking, testing,
# names, formats.
CLI         := $(call have,cli policy auth audit api json conf base)
CLI_LIBS    := -lcurl -ljansson -lcyaml -lyaml -lcrypto -lreadline

# Loaded into the runtime's python3: what a session does to itself, and libc.
EXT_FOLDERS := base wire sandbox
EXT         := $(EXT_FOLDERS:%=$(B)/ext/lib%.a)
EXT_OBJS    := $(patsubst src/%.c,$(B)/ext/%.o,$(filter src/kernel/%,$(SRCS)))
$(foreach f,$(EXT_FOLDERS),$(eval $(B)/ext/lib$f.a: \
	$(patsubst src/%.c,$(B)/ext/%.o,$(filter src/$f/%,$(SRCS)))))

program   = $(if $(wildcard src/cmd/$1.c),$(B)/bin/$2)
PROGRAMS := $(call program,warden,glovebox-warden) \
	$(call program,egress,glovebox-egress) \
	$(call program,gloveboxd,gloveboxd) $(call program,glovebox,glovebox)
DRIVER   := $(patsubst src/kernel/driver/%,$(B)/lib/kernel/%,\
	$(wildcard src/kernel/driver/*.py))
KERNEL   := $(if $(EXT_OBJS),$(B)/lib/kernel/_glovebox.abi3.so) $(DRIVER)

UNIT   := $(patsubst tests/unit/%.c,$(B)/tests/%,$(wildcard tests/unit/test_*.c))
FUZZ   := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
REPLAY := $(FUZZ:%=$(B)/tests/replay_%)
# What wire tests speak through: each folder has its own versions.
CLIENTS := $(patsubst %/package.json,%/node_modules/.stamp,\
	tests/package.json $(wildcard tests/clients/*/package.json))
# The daemon with what the MCP conformance suite wants to find in it.
FIXTURES := $(wildcard tests/mcp/*.c)
MCP_TEST := $(if $(FIXTURES),$(B)/tests/gloveboxd-mcp)
# Drives the proxy in the egress lab.
LAB := $(patsubst tests/egress/%.c,$(B)/tests/egress-%,$(wildcard tests/egress/*.c))
# Tests may look at both sides of the warden; no program may.
TEST_ARCHIVES := $(ARCHIVES) $(B)/lib/libmicrohttpd.a
TEST_LIBS := -Wl,--as-needed,--start-group $(TEST_ARCHIVES) -Wl,--end-group \
	$(DAEMON_LIBS) $(WARDEN_LIBS) $(EGRESS_LIBS) $(CLI_LIBS) -lcmocka

# --- The two commands of the README --------------------------------------

.PHONY: run test
run: ## install what is missing, build, build the runtime images, serve
	@tools/deps build run
	@$(MAKE) all
	@$(MAKE) runtime
	@exec $(B)/bin/glovebox serve

test: ## the same set-up, then the quick lints and every test
	@tools/deps build run test lint
	@$(MAKE) suites FAMILIES="lint unit fuzz sandbox wire"

# --- Building ------------------------------------------------------------

.PHONY: all deps runtime
all: $(PROGRAMS) $(KERNEL) ## build the programs and the kernel extension

deps: ## install every Debian package any target needs
	@tools/deps

runtime: all ## build the runtime images that are not cached yet
	@set -e; for r in $(RUNTIMES); do $(B)/bin/glovebox runtime build $$r; done

# The script that takes documents apart is carried in the object.
$(B)/obj/search/script.o: src/search/extract.py
# So is the one that makes reports.
$(B)/obj/doors/mcp/tool_report.o: src/doors/mcp/report.py

$(B)/bin/glovebox-warden: $(B)/obj/cmd/warden.o $(WARDEN)
	$(call say,LINK,$@)$(LINK) -o $@ $^ $(WARDEN_LIBS)
$(B)/bin/glovebox-egress: $(B)/obj/cmd/egress.o $(EGRESS)
	$(call say,LINK,$@)$(LINK) -o $@ $^ $(EGRESS_LIBS)
$(B)/bin/gloveboxd: $(B)/obj/cmd/gloveboxd.o $(DAEMON)
	$(call say,LINK,$@)$(LINK) -o $@ $< -Wl,--start-group $(DAEMON) \
	  -Wl,--end-group $(DAEMON_LIBS)
$(B)/bin/glovebox: $(B)/obj/cmd/glovebox.o $(CLI)
	$(call say,LINK,$@)$(LINK) -o $@ $^ $(CLI_LIBS)

# A symbol that is neither libc's nor Python's would only be missed when a
# session starts, so it is looked for here.
$(B)/lib/kernel/_glovebox.abi3.so: $(EXT_OBJS) $(EXT)
	$(call say,LINK,$@)$(EXT_LINK) -o $@ $(EXT_OBJS) -Wl,--start-group $(EXT) \
	  -Wl,--end-group
	@nm -D --undefined-only $@ | awk '$$1 == "U" && $$2 !~ /@GLIBC|^_?Py/ \
	  { print "kernel extension needs " $$2; bad = 1 } END { exit bad }'
$(DRIVER): $(B)/lib/kernel/%: src/kernel/driver/%
	$(call say,COPY,$@)install -m 644 $< $@

$(ARCHIVES) $(EXT): $(B)/sources
	$(call say,AR,$@)rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)
$(B)/obj/%.o: src/%.c $(B)/flags
	$(call say,CC,$<)$(COMPILE) -c -o $@ $<
$(B)/ext/%.o: src/%.c $(B)/flags
	$(call say,CC,$< (extension))$(EXT_COMPILE) -c -o $@ $<

# libmicrohttpd as Debian builds it, but reading through our gate: what it
# receives passes the strict parser of src/http first. The two names must be
# there, or it would read past the gate.
MHD := $(shell $(CC) -print-file-name=libmicrohttpd.a)
$(B)/lib/libmicrohttpd.a: $(MHD)
	$(call say,GATE,$@)objcopy --redefine-sym recv=http_gate_recv \
	  --redefine-sym gnutls_record_recv=http_gate_tls_recv $< $@
	@for name in http_gate_recv http_gate_tls_recv; do \
	  nm $@ 2>/dev/null | grep -q " U $$name$$" || \
	    { echo "$(MHD) does not call what $$name replaces"; exit 1; }; done

# Rewritten only when they change: a removed file or another flag rebuilds.
$(B)/sources: FORCE
	@echo '$(SRCS)' | cmp -s - $@ || echo '$(SRCS)' >$@
$(B)/flags: FORCE
	@echo "$(COMPILE)" | cmp -s - $@ || echo "$(COMPILE)" >$@
.PHONY: FORCE

# --- Tests ---------------------------------------------------------------

# tools/test-run counts; its last line is `N passed, N failed[, N skipped]`.
FAMILIES ?= unit fuzz sandbox wire
.PHONY: suites check test-unit test-sandbox test-wire test-programs
.PHONY: asan ubsan tsan
suites: test-programs
	@$(MAKE) runtime $(CLIENTS)
	@tools/test-run --build $(B) --promises $(FAMILIES)

check: test-programs ## one suite or case: make check T=test_session C='D1_*'
	@tools/test-run --build $(B) --only '$(or $(T),.)' \
	  $(if $(C),--case '$(C)') unit sandbox wire

test-programs: all $(UNIT) $(REPLAY) $(MCP_TEST) $(LAB)

test-unit: $(UNIT) $(REPLAY) $(KERNEL) ## unit tests and fuzz corpora; no root, no network
	@tools/test-run --build $(B) unit fuzz
test-sandbox: runtime $(CLIENTS) ## what a session must not do
	@tools/test-run --build $(B) sandbox
test-wire: runtime $(CLIENTS) $(LAB) ## the doors, by real clients
	@tools/test-run --build $(B) wire

asan: ## every test on an AddressSanitizer build
ubsan: ## every test on an UndefinedBehaviorSanitizer build
asan ubsan:
	@tools/deps build run test
	@$(MAKE) FLAVOUR=$@ B=$(B)-$@ suites

# Sandboxes and whole services are left out: the sanitizer's memory does not
# fit into their limits, and it slows every deadline down tenfold.
tsan: ## unit tests on a ThreadSanitizer build
	@tools/deps build test
	@$(MAKE) FLAVOUR=$@ B=$(B)-$@ test-unit

# Its own definitions come first; those of the archive are weak. It looks for
# the warden and the proxy beside itself.
$(B)/tests/gloveboxd-mcp: $(B)/obj/cmd/gloveboxd.o $(FIXTURES) \
	  $(wildcard tests/mcp/*.h) $(DAEMON) $(B)/flags
	$(call say,TEST,$@)$(LINK) $(COMMON) -Itests/mcp -fPIE -o $@ $< $(FIXTURES) \
	  -Wl,--start-group $(DAEMON) -Wl,--end-group $(DAEMON_LIBS)
	@ln -sf ../bin/glovebox-warden ../bin/glovebox-egress $(@D)/
# tests/lib/case_filter.c lets one case of a program be run alone.
$(UNIT): $(B)/tests/%: tests/unit/%.c $(B)/tests/case_filter.o \
	  $(TEST_ARCHIVES) $(B)/flags
	$(call say,TEST,$<)$(COMPILE) -MF $@.d -MT $@ -o $@ $< \
	  $(B)/tests/case_filter.o $(TEST_LIBS)
$(B)/tests/case_filter.o: tests/lib/case_filter.c $(B)/flags
	$(call say,CC,$<)$(COMPILE) -c -o $@ $<
$(LAB): $(B)/tests/egress-%: tests/egress/%.c $(TEST_ARCHIVES) $(B)/flags
	$(call say,TEST,$<)$(COMPILE) -MF $@.d -MT $@ -o $@ $< $(TEST_LIBS)
$(REPLAY): $(B)/tests/replay_%: tests/fuzz/fuzz_%.c tests/fuzz/replay.c \
	  $(TEST_ARCHIVES) $(B)/flags
	$(call say,TEST,$<)$(LINK) $(COMMON) -fPIE -o $@ $(filter %.c,$^) $(TEST_LIBS)

# By the lock file, but not `npm ci`: that refuses one that does not name what
# other platforms would need, which not every registry has.
$(CLIENTS): %/node_modules/.stamp: %/package.json %/package-lock.json
	@echo '  NPM   $*'
	@cd $* && npm install --no-save --silent --no-audit --no-fund
	@mkdir -p $(@D) && touch $@

# --- Fuzzing, coverage, speed --------------------------------------------

.PHONY: fuzz fuzz-programs cover bench
fuzz: ## fuzz each parser for FUZZ_SECONDS (60) with libFuzzer
	@tools/deps build test fuzz
	@$(MAKE) FLAVOUR=fuzz CC=clang B=$(B)-fuzz fuzz-programs
	@set -e; for f in $(FUZZ); do echo "--- fuzz $$f"; \
	  mkdir -p $(B)-fuzz/corpus/$$f; \
	  $(B)-fuzz/tests/fuzz_$$f -max_total_time=$(FUZZ_SECONDS) -timeout=5 \
	    -artifact_prefix=$(B)-fuzz/$$f- $(B)-fuzz/corpus/$$f \
	    tests/fuzz/corpus/$$f; done
fuzz-programs: $(FUZZ:%=$(B)/tests/fuzz_%)
$(FUZZ:%=$(B)/tests/fuzz_%): $(B)/tests/fuzz_%: tests/fuzz/fuzz_%.c \
	  $(TEST_ARCHIVES) $(B)/flags
	$(call say,FUZZ,$<)$(LINK) -fsanitize=fuzzer $(COMMON) -fPIE -o $@ $< \
	  $(TEST_LIBS)

cover: ## every test on a coverage build, then the lines reached
	@tools/deps build run test cover
	@$(MAKE) FLAVOUR=cover B=$(B)-cover suites; \
	  gcovr --root . --filter src/ --object-directory $(B)-cover \
	    --html-details $(B)-cover/cover.html --print-summary

bench: ## measure against the peers and write docs/BENCHMARKS.md
	@tools/deps build run test bench
	@$(MAKE) runtime
	@bench/run $(B)

# --- Style ---------------------------------------------------------------

C_FILES := $(wildcard src/*/*.[ch] src/*/*/*.[ch] tests/*/*.[ch] bench/*.[ch])
TIDY    := $(SRCS:src/%.c=$(B)/tidy/%.ok)
LINTS   := lint-layers lint-banned lint-docs lint-format lint-cppcheck lint-tidy
.PHONY: lint $(LINTS) format
lint: $(LINTS) ## all style and defect checks, clang-tidy included

lint-layers:
	@tools/lint-layers
lint-banned:
	@tools/lint-banned $(C_FILES)
lint-docs:
	@tools/lint-docs
lint-format:
	@clang-format --dry-run -Werror $(C_FILES)
lint-cppcheck:
	@cppcheck -q -j$(JOBS) --std=c11 --language=c --inline-suppr \
	  --enable=warning,performance,portability --error-exitcode=1 \
	  --library=posix,gnu,tools/cppcheck.cfg \
	  --suppressions-list=tools/cppcheck.suppress -D_GNU_SOURCE -Isrc src
lint-tidy: $(TIDY)

# Hangs on the object, which is newer whenever the file or a header changed.
$(B)/tidy/kernel/%.ok: $(B)/ext/kernel/%.o .clang-tidy
	$(call say,TIDY,src/kernel/$*.c)$(call tidy,src/kernel/$*.c,$(EXT_COMPILE))
$(B)/tidy/%.ok: $(B)/obj/%.o .clang-tidy
	$(call say,TIDY,src/$*.c)$(call tidy,src/$*.c,$(COMPILE))
tidy = out=$$(clang-tidy --quiet $1 -- -std=gnu17 $(filter -I% -isystem /usr/% \
	-DG% -DP% -D_GNU%,$2) $(if $(filter src/base/%,$1),,-include tools/tidy.h) \
	2>&1) || { echo "$$out"; exit 1; }; touch $@

format: ## rewrite all C sources in our format
	@clang-format -i $(C_FILES)

# For clangd and other tools that want to know how each file is compiled.
json_words = $(foreach w,$1,"$(subst ",\",$(subst ',,$w))",)
compile_commands.json: Makefile ## how each C file is compiled, for editors
	@{ echo '['; sep=; for f in $(SRCS); do \
	  case $$f in src/kernel/*) words='$(call json_words,$(EXT_COMPILE))' ;; \
	  *) words='$(call json_words,$(COMPILE))' ;; esac; \
	  echo "$$sep{\"directory\": \"$(CURDIR)\", \"file\": \"$$f\"," \
	    "\"arguments\": [$$words \"-c\", \"$$f\"]}"; sep=,; done; echo ']'; } >$@

# --- Installing ----------------------------------------------------------

.PHONY: install dist help
install: all ## install under PREFIX (/usr/local), below DESTDIR if set
	install -d $(addprefix $(DESTDIR)$(PREFIX)/,bin libexec/glovebox/kernel \
	  share/glovebox share/doc/glovebox lib/systemd/system)
	install -m 755 $(B)/bin/glovebox $(DESTDIR)$(PREFIX)/bin/
	install -m 755 $(B)/bin/gloveboxd $(B)/bin/glovebox-warden \
	  $(B)/bin/glovebox-egress \
	  tools/runtime-build $(DESTDIR)$(PREFIX)/libexec/glovebox/
	install -m 644 $(KERNEL) $(DESTDIR)$(PREFIX)/libexec/glovebox/kernel/
	cp -R runtimes $(DESTDIR)$(PREFIX)/share/glovebox/
	install -m 644 README.md SECURITY.md NEWS.md LICENSE docs/*.md \
	  $(DESTDIR)$(PREFIX)/share/doc/glovebox/
	sed 's,@PREFIX@,$(PREFIX),g' packaging/glovebox.service \
	  >$(DESTDIR)$(PREFIX)/lib/systemd/system/glovebox.service

dist: ## make glovebox-VERSION.tar.gz of the last commit
	git archive --prefix=glovebox-$(VERSION)/ -o glovebox-$(VERSION).tar.gz HEAD

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' \
	  $(MAKEFILE_LIST)

# Folders of everything above, once per invocation.
$(shell mkdir -p $(addprefix $(B)/,bin lib/kernel tests) $(sort $(dir \
	$(SRCS:src/%=$(B)/obj/%) $(SRCS:src/%=$(B)/ext/%) $(TIDY))))
-include $(shell find $(B)/obj $(B)/ext $(B)/tests -name '*.d' 2>/dev/null)
