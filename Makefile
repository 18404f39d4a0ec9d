# Glovebox: one Makefile, non-recursive; `make help` lists the targets.
#
# Sources are found by folder: src/<module>/*.c becomes $(B)/lib/lib<module>.a,
# and each program names the archives it is linked from. A new file needs no
# line here, a new folder only a word in a link list. Flavours (asan, ubsan,
# tsan, cover, fuzz) build in a directory of their own.

VERSION := 0.2.0
B       ?= build
FLAVOUR ?= release
PREFIX  ?= /usr/local
JOBS    ?= $(shell nproc)
V       ?= 0

# make presets CC to cc, which ?= would keep.
ifeq ($(origin CC),default)
CC := gcc
endif
PYTHON   := /usr/bin/python3
RUNTIMES := minimal standard
# The image of the default pool, the only one that `make run` needs.
DEFAULT_RUNTIME := standard
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
memory_FLAGS  := -O1 -fno-omit-frame-pointer -DGLOVEBOX_DEBUG \
	-fsanitize=address,undefined -fno-sanitize-recover=all
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

SRCS := $(wildcard src/*/*.c src/*/*/*.c src/*/*/*/*.c)
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

# The web console: bundled by web/build.mjs into web/dist for every flavour,
# then embedded. A tree without web/ makes a daemon without a console.
WEB := $(if $(wildcard web/package.json),web/dist/.stamp)
$(B)/lib/libdoors.a: $(B)/obj/doors/console/table.o

have = $(filter $(ARCHIVES),$(1:%=$(B)/lib/lib%.a))

# --- Link lists: what each process can do, because nothing else is in it ---

# The only privileged process: no HTTP, no JSON, no YAML, no SQL, no crypto
# library, no Python. Of base and sandbox it takes the objects it calls.
WARDEN      := $(call have,warden-serve sandbox fair wire base)
WARDEN_LIBS := -lseccomp

# Parses everything from outside, owns the store, holds no privilege. It can
# ask the warden (call side) but has none of the answers, and no sandbox code.
DAEMON      := $(call have,service doors posture chat agents search mirror meaning model execution session network pool box workspace node upkeep tree core govern approval evidence vault egress helper \
	warden-call policy quota \
	auth audit http blob s3 fetch store disk fair feed api language json conf yaml wire base) \
	$(B)/lib/libmicrohttpd.a
DAEMON_LIBS := -lgnutls -ljansson -lyaml -lsqlite3 -lpq -larchive -lcurl -lexpat -lcrypto -lidn2 -lstemmer -llapacke -lblas -lm -pthread

# Talks to the world for sessions, under an account of its own: TLS, names, and
# nothing of the service. No store, no JSON, no key of ours, no way to ask the
# warden.
EGRESS      := $(call have,egress-serve egress helper wire base)
EGRESS_LIBS := -lssl -lcrypto -lcares -lidn2 -lseccomp

# Talks to the servers of language models, under an account of its own: HTTP,
# JSON of those servers, and nothing of the service. No store, no way to ask the
# warden.
MODEL       := $(call have,upstream helper json wire base)
MODEL_LIBS  := -lcurl -ljansson -lcrypto -lseccomp -pthread

# A client. It starts the daemon as a program, it is not linked to it.
# Of policy, auth and audit it takes what needs no store: checking, testing,
# names, formats.
CLI         := $(call have,cli policy auth audit api language image json conf yaml base)
CLI_LIBS    := -larchive -lcurl -ljansson -lyaml -lcrypto -lreadline -lpng -lsixel

# Loaded into the runtime's python3: what a session does to itself, and libc.
EXT_FOLDERS := base wire sandbox
EXT         := $(EXT_FOLDERS:%=$(B)/ext/lib%.a)
EXT_OBJS    := $(patsubst src/%.c,$(B)/ext/%.o,$(filter-out \
	src/kernel/revive.c,$(filter src/kernel/%,$(SRCS))))
$(foreach f,$(EXT_FOLDERS),$(eval $(B)/ext/lib$f.a: \
	$(patsubst src/%.c,$(B)/ext/%.o,$(filter src/$f/%,$(SRCS)))))

program   = $(if $(wildcard src/cmd/$1.c),$(B)/bin/$2)
PROGRAMS := $(call program,warden,glovebox-warden) \
	$(call program,egress,glovebox-egress) \
	$(call program,model,glovebox-model) \
	$(call program,gloveboxd,gloveboxd) $(call program,glovebox,glovebox)
DRIVER   := $(patsubst src/kernel/driver/%,$(B)/lib/kernel/%,\
	$(wildcard src/kernel/driver/*.py))
HIDDEN   := $(B)/lib/kernel/glovebox-init $(B)/lib/kernel/glovebox-revive
KERNEL   := $(if $(EXT_OBJS),$(B)/lib/kernel/_glovebox.abi3.so $(HIDDEN)) \
	$(DRIVER)

UNIT   := $(patsubst tests/unit/%.c,$(B)/tests/%,$(wildcard tests/unit/test_*.c))
FUZZ   := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
REPLAY := $(FUZZ:%=$(B)/tests/replay_%)
# What wire tests speak through: each folder has its own versions.
CLIENTS := $(patsubst %/package.json,%/node_modules/.stamp,\
	tests/package.json $(wildcard tests/clients/*/package.json))
# The daemon with what the MCP conformance suite wants to find in it.
FIXTURES := $(wildcard tests/mcp/*.c)
MCP_TEST := $(if $(FIXTURES),$(B)/tests/gloveboxd-mcp)
# The daemon with small pages instead of the console's.
CONSOLE_TEST := $(B)/tests/gloveboxd-console
# Drives the proxy in the egress lab.
LAB := $(patsubst tests/egress/%.c,$(B)/tests/egress-%,$(wildcard tests/egress/*.c))
# Makes one call of a model.
MODEL_DRIVER := $(B)/tests/model-driver
# Drives boxes without a service.
BOXES := $(B)/tests/memory-driver
# Tests may look at both sides of the warden; no program may.
# PART: only these folders, for test programs that need no others.
TEST_ARCHIVES := $(if $(PART),$(call have,$(PART)),$(ARCHIVES)) \
	$(B)/lib/libmicrohttpd.a
TEST_LIBS := -Wl,--as-needed,--start-group $(TEST_ARCHIVES) -Wl,--end-group \
	$(DAEMON_LIBS) $(WARDEN_LIBS) $(EGRESS_LIBS) $(CLI_LIBS) -lcmocka

# --- The two commands of the README --------------------------------------

.PHONY: run test
# Building the image needs the command line only and mostly waits for downloads
# and unpacking, so the daemon compiles beside it.
run: ## install what is missing, build, build the default runtime image, serve
	@tools/deps build run
	@$(MAKE) $(B)/bin/glovebox
	@GLOVEBOX_PROGRESS=lines $(B)/bin/glovebox runtime build \
	  $(DEFAULT_RUNTIME) & image=$$!; \
	$(MAKE) all || { kill $$image; wait; exit 1; }; wait $$image
	@exec $(B)/bin/glovebox serve

test: ## the same set-up, then the quick lints and every test
	@tools/deps build run test lint dist
	@$(MAKE) suites FAMILIES="lint unit fuzz memory threads postgres sandbox wire console"

# --- Building ------------------------------------------------------------

.PHONY: all deps runtime
all: $(PROGRAMS) $(KERNEL) ## build the programs and the kernel extension

deps: ## install every Debian package any target needs
	@tools/deps

runtime-full: all ## build the runtime image `full`; large and long
	@$(B)/bin/glovebox runtime build full

runtime: all ## build the runtime images that are not cached yet
	@set -e; for r in $(RUNTIMES); do $(B)/bin/glovebox runtime build $$r; done

# Comparing vectors is one loop, which the compiler vectorizes at this level.
$(B)/obj/meaning/index.o $(B)/obj/meaning/model.o: private CFLAGS += -O3
# The script that takes documents apart is carried in the object.
$(B)/obj/search/script.o: src/search/extract.py
$(B)/obj/doors/native/files/table_preview.o: src/doors/native/files/table_preview.py
# So are the drivers of interpreters.
$(B)/obj/language/driver.o: $(wildcard src/language/driver/*)
# So is the one that makes reports.
$(B)/obj/doors/mcp/tool_report.o: $(wildcard src/doors/mcp/report*.py)

web/node_modules/.stamp: $(wildcard web/package.json web/package-lock.json)
	@echo '  NPM   web'
	@cd web && npm install --no-save --silent --no-audit --no-fund
	@mkdir -p $(@D) && touch $@
web/dist/.stamp: web/node_modules/.stamp $(if $(WEB),$(shell find web \
	  -name node_modules -prune -o -path web/dist -prune -o -type f -print))
	$(call say,WEB,web/dist)node web/build.mjs web/dist
	@touch $@
$(B)/web/table.c: $(WEB) tools/web-embed
	@mkdir -p $(@D)
	$(call say,EMBED,$@)tools/web-embed $(if $(WEB),web/dist) $@
$(B)/obj/doors/console/table.o: $(B)/web/table.c src/doors/console/console.h \
	  $(B)/flags
	$(call say,CC,$<)$(COMPILE) -c -o $@ $<

$(B)/bin/glovebox-warden: $(B)/obj/cmd/warden.o $(WARDEN)
	$(call say,LINK,$@)$(LINK) -o $@ $^ $(WARDEN_LIBS)
$(B)/bin/glovebox-egress: $(B)/obj/cmd/egress.o $(EGRESS)
	$(call say,LINK,$@)$(LINK) -o $@ $^ $(EGRESS_LIBS)
$(B)/bin/glovebox-model: $(B)/obj/cmd/model.o $(MODEL)
	$(call say,LINK,$@)$(LINK) -o $@ $^ $(MODEL_LIBS)
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
# Runs in images of any distribution, so it is static. Sessions may run it but
# not read it: they would share its inode.
PLAIN_OBJS := $(patsubst %,$(B)/ext/kernel/%.o,plain zygote init broker \
	guest guest_config guest_filter guest_init guest_relay \
	dir_walk scan net notify guest_env shell_state points)
$(B)/lib/kernel/glovebox-init: $(B)/ext/cmd/init.o $(PLAIN_OBJS) $(EXT)
	$(call say,LINK,$@)$(CC) -g -static-pie -Wl,-z,relro,-z,now -o $@ \
	  $(filter %.o,$^) -Wl,--start-group $(EXT) -Wl,--end-group && chmod 711 $@
# Has no C library and lies where no image has anything (IMAGE_ROOM).
REVIVE_OBJS := $(patsubst %,$(B)/revive/%.o,revive image_read image_place \
	image_host)
$(B)/lib/kernel/glovebox-revive: $(REVIVE_OBJS)
	$(call say,LINK,$@)$(CC) -g -nostdlib -static -no-pie \
	  -Wl,-Ttext-segment=0x100000000000,-z,noexecstack,-z,noseparate-code \
	  -o $@ $^ && chmod 711 $@
$(B)/revive/%.o: src/kernel/%.c $(B)/flags
	$(call say,CC,$< (revive))$(CC) $(COMMON) -O2 -fPIC -ffreestanding \
	  -fno-stack-protector -fno-tree-loop-distribute-patterns \
	  -fvisibility=hidden -MMD -MP -c -o $@ $<
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
FAMILIES ?= unit fuzz sandbox wire console
.PHONY: suites check test-unit test-sandbox test-wire test-console test-programs
.PHONY: asan ubsan tsan
suites: test-programs
	@$(MAKE) runtime $(CLIENTS) $(addprefix sanitized-,$(filter memory threads,\
	  $(FAMILIES)))
	@tools/test-run --build $(B) --promises $(FAMILIES)

check: test-programs ## one suite or case: make check T=test_session C='D1_*'
	@tools/test-run --build $(B) --only '$(or $(T),.)' \
	  $(if $(C),--case '$(C)') unit sandbox wire console

test-programs: all $(UNIT) $(REPLAY) $(MCP_TEST) $(CONSOLE_TEST) $(LAB) $(BOXES) \
	  $(B)/completions/.stamp

# An image with every language, in a cache of its own (about 1.7 GB).
LANGUAGES_CACHE ?= $(abspath $(B))/languages
.PHONY: test-languages
test-languages: all $(CLIENTS) ## tests of all languages on an image that has them
	@GLOVEBOX_RUNTIME_DEFS=tests/runtimes GLOVEBOX_RUNTIME_DIR=$(LANGUAGES_CACHE) \
	  $(B)/bin/glovebox runtime build languages
	@GLOVEBOX_LANGUAGES_CACHE=$(LANGUAGES_CACHE) tools/test-run --build $(B) \
	  --only wire/languages wire

# Downloads some 15 MB of Debian sid and unpacks them in a folder of their own.
.PHONY: test-llama
test-llama: all $(MODEL_DRIVER) $(CLIENTS) runtime ## models against a real llama.cpp server
	@GLOVEBOX_BUILD=$(B) node --test tests/llama/

# Downloads some 20 MB of Debian sid and unpacks them in the same way.
.PHONY: test-openai-python
test-openai-python: all $(CLIENTS) runtime ## the OpenAI API by Debian sid's openai for Python
	@GLOVEBOX_BUILD=$(B) node --test tests/python/

.PHONY: test-s3
test-s3: test-programs runtime $(CLIENTS) ## everything about S3, against a real and a faulty server
	@GLOVEBOX_TEST_S3=1 tools/test-run --build $(B) --only 'test_s3|test_blob_s3|test_blob_tier|wire/s3' unit wire

.PHONY: test-meaning
test-meaning: test-programs runtime $(CLIENTS) ## search by meaning when it is killed, and on a full disk
	@GLOVEBOX_TEST_MEANING=1 tools/test-run --build $(B) --only 'meaning|recall' unit wire

test-unit: $(UNIT) $(REPLAY) $(KERNEL) ## unit tests and fuzz corpora; no root, no network
	@tools/test-run --build $(B) unit fuzz
.PHONY: test-postgres
test-postgres: test-programs runtime $(CLIENTS) ## every test of the store's second engine, on a real PostgreSQL
	@GLOVEBOX_POSTGRES=all tools/test-run --build $(B) $(if $(T),--only '$(T)') \
	  postgres
test-sandbox: runtime $(CLIENTS) $(BOXES) ## what a session must not do
	@tools/test-run --build $(B) sandbox
# The sandbox suite on the other isolation tier; the few tests of what only the
# tier "process" has are listed as skipped, with the reason.
.PHONY: test-gvisor
test-gvisor: ## what a session must not do, on the tier gvisor
	@tools/deps build run test gvisor
	@$(MAKE) test-programs runtime $(CLIENTS)
	@GLOVEBOX_TIER=gvisor tools/test-run --build $(B) sandbox
.PHONY: test-memory
test-memory: runtime $(BOXES) ## ROUNDS (10) whole rounds of every program that must survive waking
	@GLOVEBOX_BUILD=$(B) node tests/memory/rounds.mjs $(or $(ROUNDS),10) '$(T)'
test-wire: runtime $(CLIENTS) $(CONSOLE_TEST) $(LAB) ## the doors, by real clients
	@tools/test-run --build $(B) wire
test-kills: runtime ## 200 random kills of the service during hibernate and wake
	@GLOVEBOX_BUILD=$(B) GLOVEBOX_KILLS=200 node --test --test-name-pattern=kills \
	  tests/wire/native/23-hibernate.test.mjs

cluster-test: runtime ## SECONDS (300) of faults on three nodes, checked afterwards
	@GLOVEBOX_BUILD=$(B) node tests/cluster/faults.mjs --seconds $(or $(SECONDS),300)

test-console: runtime $(CLIENTS) ## the web console, in a real browser
	@GLOVEBOX_CONSOLE=all tools/test-run --build $(B) console

test-full: runtime-full test-programs $(CLIENTS) ## what the runtime `full` must be able to do
	@GLOVEBOX_TEST_FULL=1 tools/test-run --build $(B) --only 'full/|languages/' wire

# A small sanitizer run inside `make test`: the programs that parse foreign bytes
# or keep them, with AddressSanitizer and UndefinedBehaviorSanitizer in one
# build, and those with the most threads, with ThreadSanitizer. Only the folders
# that these programs need are compiled. A machine without a sanitizer gets a
# file that says why; tools/test-run lists the reason as a skip.
MEMORY_PART  := base wire json helper upstream yaml fair language conf http api fetch policy auth audit store quota \
	egress egress-serve agents
MEMORY_TESTS := base wire json upstream conf conf_runtime http_strict multipart policy \
	auth_token store audit_chain quota dns egress_host egress_http egress_rules \
	agents_schema agents_template
MEMORY_FUZZ  := conf dns egress_head egress_host multipart policy strict upstream wire
THREADS_PART  := base wire json yaml fair language http api fetch policy auth audit store quota
THREADS_TESTS := thread fair audit audit_journal quota http http_early
.PHONY: sanitized-memory sanitized-threads sanitized
sanitized-memory:
	@$(MAKE) FLAVOUR=memory B=$(B)-memory sanitized PART="$(MEMORY_PART)" \
	  PROGRAM_NAMES="$(MEMORY_TESTS:%=test_%) $(MEMORY_FUZZ:%=replay_%)"
sanitized-threads:
	@$(MAKE) FLAVOUR=tsan B=$(B)-threads sanitized PART="$(THREADS_PART)" \
	  PROGRAM_NAMES="$(THREADS_TESTS:%=test_%)"
sanitized:
	@rm -f $(B)/skipped
	@echo 'int main(void) { return 0; }' >$(B)/probe.c; \
	  if out=$$($(LINK) -o $(B)/probe $(B)/probe.c 2>&1 && $(B)/probe 2>&1); \
	  then exec $(MAKE) $(PROGRAM_NAMES:%=$(B)/tests/%); \
	  else echo "$(FLAVOUR) sanitizers: $$out" | head -1 >$(B)/skipped; fi

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
	@ln -sf ../bin/glovebox-warden ../bin/glovebox-egress \
	  ../bin/glovebox-model $(@D)/
# The daemon with a console of its own, so that its tests do not depend on the
# pages of the product.
$(B)/tests/console/table.c: $(wildcard tests/console/dist/* \
	  tests/console/dist/assets/*) tools/web-embed
	@mkdir -p $(@D)
	@tools/web-embed tests/console/dist $@
$(B)/tests/console/table.o: $(B)/tests/console/table.c $(B)/flags
	@$(COMPILE) -c -o $@ $<
$(CONSOLE_TEST): $(B)/obj/cmd/gloveboxd.o $(B)/tests/console/table.o $(DAEMON)
	$(call say,TEST,$@)$(LINK) -o $@ $(filter %.o,$^) \
	  -Wl,--start-group $(DAEMON) -Wl,--end-group $(DAEMON_LIBS)
	@ln -sf ../bin/glovebox-warden ../bin/glovebox-egress \
	  ../bin/glovebox-model $(@D)/

# The service with switches for the benchmark of fairness, in a directory of
# its own because the daemon starts the programs that are beside it.
FAIRNESS := $(B)/fairness/gloveboxd $(B)/fairness/glovebox-warden
SWITCHES := tests/fairness/switches.c
$(B)/fairness/gloveboxd: $(B)/obj/cmd/gloveboxd.o $(SWITCHES) $(DAEMON) $(B)/flags
	$(call say,TEST,$@)mkdir -p $(@D) && $(LINK) $(COMMON) -fPIE -o $@ $< \
	  $(SWITCHES) -Wl,--start-group $(DAEMON) -Wl,--end-group $(DAEMON_LIBS)
	@ln -sf ../bin/glovebox-egress ../bin/glovebox-model $(@D)/
$(B)/fairness/glovebox-warden: $(B)/obj/cmd/warden.o $(SWITCHES) $(WARDEN) $(B)/flags
	$(call say,TEST,$@)mkdir -p $(@D) && $(LINK) $(COMMON) -fPIE -o $@ $< \
	  $(SWITCHES) $(WARDEN) $(WARDEN_LIBS)
# tests/lib/case_filter.c lets one case of a program be run alone.
$(UNIT): $(B)/tests/%: tests/unit/%.c $(B)/tests/case_filter.o \
	  $(TEST_ARCHIVES) $(B)/flags
	$(call say,TEST,$<)$(COMPILE) -MF $@.d -MT $@ -o $@ $< \
	  $(B)/tests/case_filter.o $(TEST_LIBS)
$(B)/tests/case_filter.o: tests/lib/case_filter.c $(B)/flags
	$(call say,CC,$<)$(COMPILE) -c -o $@ $<
$(LAB): $(B)/tests/egress-%: tests/egress/%.c $(TEST_ARCHIVES) $(B)/flags
	$(call say,TEST,$<)$(COMPILE) -MF $@.d -MT $@ -o $@ $< $(TEST_LIBS)
$(MODEL_DRIVER): tests/model/driver.c $(TEST_ARCHIVES) $(B)/flags
	$(call say,TEST,$<)$(COMPILE) -MF $@.d -MT $@ -o $@ $< $(TEST_LIBS)
$(BOXES): tests/memory/driver.c $(TEST_ARCHIVES) $(B)/flags
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

.PHONY: fuzz fuzz-programs cover bench bench-fairness
$(B)/bench/judged: bench/judged/judged.c $(call have,meaning base) $(B)/flags
	$(call say,LINK,$@)mkdir -p $(@D) && $(LINK) $(COMMON) -fPIE -o $@ \
	  $(filter %.c %.a,$^) $(DAEMON_LIBS)
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

bench: ## measure and write docs/BENCHMARKS.md; BASE=tree: compare with that build
	@tools/deps build run gvisor test bench
	@$(MAKE) runtime $(B)/bench/judged
	@$(if $(BASE),tools/bench-compare --build $(B) $(BASE),bench/run $(B))

bench-fairness: ## measure each mechanism of docs/FAIRNESS.md by switching it off
	@tools/deps build run test
	@$(MAKE) runtime $(FAIRNESS) $(CLIENTS)
	@GLOVEBOX_BUILD=$(B) node bench/fairness.mjs

# --- Style ---------------------------------------------------------------

C_FILES := $(wildcard src/*/*.[ch] src/*/*/*.[ch] src/*/*/*/*.[ch] tests/*/*.[ch] bench/*.[ch] bench/*/*.[ch])
TIDY    := $(SRCS:src/%.c=$(B)/tidy/%.ok)
LINTS   := lint-layers lint-banned lint-sql lint-docs lint-format lint-cppcheck lint-tidy
.PHONY: lint $(LINTS) format
lint: $(LINTS) ## all style and defect checks, clang-tidy included

lint-layers:
	@tools/lint-layers
lint-banned:
	@tools/lint-banned $(C_FILES)
lint-sql:
	@tools/lint-sql --test
	@tools/lint-sql
lint-docs:
	@tools/lint-docs --self-test
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

# Where things go, below DESTDIR. `make deb` sets UNIT_DIR as its release of
# Debian wants it.
SYSCONF_DIR ?= /etc
UNIT_DIR    ?= $(PREFIX)/lib/systemd/system
D            = $(DESTDIR)$(PREFIX)
COMPLETIONS  = $(B)/completions
.PHONY: install install-docs uninstall deb dist oci help
# A file of its own time, so that installations at the same time only read them.
$(COMPLETIONS)/.stamp: $(B)/bin/glovebox tools/cli-completions
	@tools/cli-completions $(B)/bin/glovebox $(COMPLETIONS)
	@touch $@
install: all install-docs $(COMPLETIONS)/.stamp ## install under PREFIX (/usr/local), below DESTDIR if set
	install -d $(addprefix $(D)/,bin libexec/glovebox/kernel lib/sysusers.d \
	  lib/tmpfiles.d share/glovebox share/bash-completion/completions \
	  share/zsh/vendor-completions share/fish/vendor_completions.d) \
	  $(DESTDIR)$(UNIT_DIR) $(DESTDIR)$(SYSCONF_DIR)/glovebox
	install -m 755 $(B)/bin/glovebox $(D)/bin/
	install -m 755 $(B)/bin/gloveboxd $(B)/bin/glovebox-warden \
	  $(B)/bin/glovebox-egress $(B)/bin/glovebox-model \
	  tools/runtime-build $(D)/libexec/glovebox/
	install -m 644 $(filter-out $(HIDDEN),$(KERNEL)) \
	  $(D)/libexec/glovebox/kernel/
	install -m 711 $(HIDDEN) $(D)/libexec/glovebox/kernel/
	cp -R runtimes $(D)/share/glovebox/
	sed 's,@PREFIX@,$(PREFIX),g' packaging/glovebox.service \
	  >$(DESTDIR)$(UNIT_DIR)/glovebox.service
	install -m 644 packaging/glovebox.sysusers $(D)/lib/sysusers.d/glovebox.conf
	install -m 644 packaging/glovebox.tmpfiles $(D)/lib/tmpfiles.d/glovebox.conf
	install -m 644 $(COMPLETIONS)/glovebox.bash \
	  $(D)/share/bash-completion/completions/glovebox
	install -m 644 $(COMPLETIONS)/_glovebox $(D)/share/zsh/vendor-completions/
	install -m 644 $(COMPLETIONS)/glovebox.fish $(D)/share/fish/vendor_completions.d/
	test -e $(DESTDIR)$(SYSCONF_DIR)/glovebox/glovebox.yaml || install -m 644 \
	  packaging/glovebox.yaml $(DESTDIR)$(SYSCONF_DIR)/glovebox/glovebox.yaml

# The pages keep their folders, so that the links between them hold.
install-docs:
	install -d $(D)/share/man/man1 $(D)/share/doc/glovebox/docs/decisions \
	  $(D)/share/doc/glovebox/packaging
	install -m 644 docs/man/*.1 $(D)/share/man/man1/
	install -m 644 README.md SECURITY.md CONTRIBUTING.md NEWS.md LICENSE \
	  $(D)/share/doc/glovebox/
	install -m 644 docs/*.md docs/*.png $(D)/share/doc/glovebox/docs/
	install -m 644 docs/decisions/*.md $(D)/share/doc/glovebox/docs/decisions/
	cp -R packaging/policy.yaml packaging/monitoring packaging/nginx \
	  packaging/kubernetes packaging/compose $(D)/share/doc/glovebox/packaging/

# Removes what an installation of this tree consists of; configuration and data
# stay.
uninstall: ## remove what `make install` installed, with the same variables
	@rm -rf $(B)/uninstall && $(MAKE) install DESTDIR=$(abspath $(B))/uninstall \
	  >/dev/null
	@cd $(B)/uninstall && find . ! -type d ! -path './$(patsubst /%,%,$(SYSCONF_DIR))/*' \
	  -exec rm -fv $(DESTDIR)/{} \; && find . -depth -type d -path '*glovebox*' \
	  ! -path './$(patsubst /%,%,$(SYSCONF_DIR))/*' \
	  -exec rmdir --ignore-fail-on-non-empty $(DESTDIR)/{} \; 2>/dev/null; :
	@rm -rf $(B)/uninstall

deb: all ## build the Debian package into build/deb and check it with lintian
	@tools/deps build dist
	@packaging/build-deb --build $(B) --version $(VERSION) --cc '$(CC)'

oci: deb ## build an OCI image of the service into build/oci, without a daemon
	@packaging/build-oci --build $(B) --version $(VERSION)

# Complete: install, upgrade with data, run, remove, purge, in a clean chroot.
# `make test` runs the part without the service (tests/wire/packaging).
.PHONY: test-deb test-oci
test-deb: deb ## install, upgrade, run (systemd too) and purge the package in a clean chroot
	@packaging/test-deb --build $(B) --full

test-oci: oci ## start the OCI image of the service with runc, and run code in it
	@packaging/test-oci --build $(B)

dist: ## make glovebox-VERSION.tar.gz of the last commit
	git archive --prefix=glovebox-$(VERSION)/ -o glovebox-$(VERSION).tar.gz HEAD

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' \
	  $(MAKEFILE_LIST)

# Folders of everything above, once per invocation.
$(shell mkdir -p $(addprefix $(B)/,bin lib/kernel revive tests) $(sort $(dir \
	$(SRCS:src/%=$(B)/obj/%) $(SRCS:src/%=$(B)/ext/%) $(TIDY))))
-include $(shell find $(B)/obj $(B)/ext $(B)/revive $(B)/tests -name '*.d' 2>/dev/null)
