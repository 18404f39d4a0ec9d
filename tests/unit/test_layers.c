/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A workspace below a session, for real: what its code can do with files of
 * the layers, what pid 1 says of it afterwards, that nothing of it reaches
 * the files themselves, and what a hostile session makes of the marks an
 * overlay leaves.
 */
#include "layers_box.h"

/* A workspace of three files and a folder, made anew for each test. */
#define WORKSPACE                                                             \
    "rm -rf base top blobs; mkdir -p blobs base/dir/sub top; "                \
    "echo one >blobs/1; echo two >blobs/2; echo three >blobs/3; "             \
    "printf '#!/bin/sh\necho ran\n' >blobs/4; chmod 755 blobs/4; "            \
    "ln blobs/1 base/a.txt; ln blobs/2 base/dir/b.txt; "                      \
    "ln blobs/3 base/dir/sub/c.txt; ln blobs/4 base/run.sh; "

static struct box box;

static int make_box(void **state)
{
    struct warden_limits limits = box_limits();

    (void)state;
    if (boxes.missing)
        return 0;
    host(WORKSPACE);
    box_open(&box, &limits, "base", NULL);
    return 0;
}

static int drop_box(void **state)
{
    (void)state;
    if (!boxes.missing)
        box_close(&box);
    return 0;
}

/* ---- what the session sees ---------------------------------------------- */

static void layers_show_the_files_as_the_sessions_own(void **state)
{
    (void)state;
    NEED_BOXES();
    box_says(&box, "cat a.txt dir/b.txt dir/sub/c.txt; ./run.sh",
             "one\ntwo\nthree\nran\n");
    box_says(&box, "find . -printf '%p %u %G %m\n' | sort",
             ". user 1000 755\n./a.txt user 1000 644\n./dir user 1000 755\n"
             "./dir/b.txt user 1000 644\n./dir/sub user 1000 755\n"
             "./dir/sub/c.txt user 1000 644\n./run.sh user 1000 755\n");
    box_says(&box, "pwd", "/mnt/data\n");
    assert_string_equal(box_scan(&box, 0), "");
}

static void layers_are_not_needed(void **state)
{
    struct warden_limits limits = box_limits();
    struct box b;

    (void)state;
    NEED_BOXES();
    box_open(&b, &limits, NULL, NULL);
    box_says(&b, "find . -printf '%p %u %G %m\n'", ". user 1000 755\n");
    box_run(&b, "mkdir d; echo 1 >d/f; echo 2 >g; chmod +x g");
    assert_string_equal(box_scan(&b, 0), "W:d/f W+:g");
    assert_string_equal(box_scan(&b, 0), "");
    box_run(&b, "rm g; mv d e");
    assert_string_equal(box_scan(&b, 0), "G:d/f W:e/f G:g");
    box_run(&b, "rm -r e; echo >e");
    assert_string_equal(box_scan(&b, 0), "W:e");
    box_run(&b, "rm e; mkdir e; echo >e/f");
    assert_string_equal(box_scan(&b, 0), "G:e W:e/f");
    box_close(&b);
}

/* ---- what it can do, and what is said of it ----------------------------- */

static void layers_files_can_be_edited_in_place(void **state)
{
    (void)state;
    NEED_BOXES();
    box_says(&box, "echo more >>a.txt; cat a.txt", "one\nmore\n");
    assert_string_equal(box_scan(&box, 0), "W:a.txt");
    assert_string_equal(box_scan(&box, 0), "");
    box_says(&box, "sed -i s/two/2/ dir/b.txt; cat dir/b.txt", "2\n");
    assert_string_equal(box_scan(&box, 0), "W:dir/b.txt");
    box_says(&box, "chmod 600 dir/sub/c.txt; stat -c %a dir/sub/c.txt",
             "600\n");
    assert_string_equal(box_scan(&box, 0), "W:dir/sub/c.txt");
    box_run(&box, "chmod +x dir/sub/c.txt; chmod -x run.sh");
    assert_string_equal(box_scan(&box, 0), "W+:dir/sub/c.txt W:run.sh");
    box_says(&box, "truncate -s 2 a.txt; cat a.txt", "on");
    assert_string_equal(box_scan(&box, 0), "W:a.txt");
}

static void layers_files_can_be_renamed_and_deleted(void **state)
{
    (void)state;
    NEED_BOXES();
    box_says(&box, "mv a.txt z.txt; cat z.txt; ls",
             "one\ndir\nrun.sh\nz.txt\n");
    assert_string_equal(box_scan(&box, 0), "G:a.txt W:z.txt");
    box_says(&box, "rm dir/b.txt; find dir", "dir\ndir/sub\ndir/sub/c.txt\n");
    assert_string_equal(box_scan(&box, 0), "G:dir/b.txt");
    box_says(&box, "rm -r dir; ls", "run.sh\nz.txt\n");
    assert_string_equal(box_scan(&box, 0), "G:dir");
    assert_string_equal(box_scan(&box, 0), "");
    box_run(&box, "rm z.txt");
    assert_string_equal(box_scan(&box, 0), "G:z.txt");
    box_says(&box, "echo back >a.txt; cat *", "back\n#!/bin/sh\necho ran\n");
    assert_string_equal(box_scan(&box, 0), "W:a.txt");
}

static void layers_folder_and_file_change_places(void **state)
{
    (void)state;
    NEED_BOXES();
    box_run(&box, "rm a.txt; mkdir a.txt; echo 1 >a.txt/in");
    assert_string_equal(box_scan(&box, 0), "C:a.txt W:a.txt/in");
    box_run(&box, "rm -r dir; echo 1 >dir");
    assert_string_equal(box_scan(&box, 0), "W:dir");
    box_run(&box, "rm dir; mkdir -p dir/sub; echo 1 >dir/sub/c.txt");
    assert_string_equal(box_scan(&box, 0), "C:dir W:dir/sub/c.txt");
    box_run(&box, "rm -r a.txt; echo 1 >a.txt");
    assert_string_equal(box_scan(&box, 0), "W:a.txt");
    assert_string_equal(box_scan(&box, 0), "");
}

static void layers_folder_made_anew_is_cleared(void **state)
{
    (void)state;
    NEED_BOXES();
    box_run(&box, "echo 1 >dir/mine; echo 1 >>dir/b.txt");
    assert_string_equal(box_scan(&box, 0), "W:dir/b.txt W:dir/mine");
    /* Known, deleted and made again before anyone looked. */
    box_says(&box, "rm -r dir; mkdir dir; echo 2 >dir/b.txt; find dir",
             "dir\ndir/b.txt\n");
    assert_string_equal(box_scan(&box, 0), "C:dir W:dir/b.txt");
    box_run(&box, "rm -r dir");
    assert_string_equal(box_scan(&box, 0), "G:dir");
    /* What begins after it was told to be gone is no news but its files. */
    box_run(&box, "mkdir dir; echo 3 >dir/new");
    assert_string_equal(box_scan(&box, 0), "W:dir/new");
    box_run(&box, "rm -r dir; mkdir dir");
    assert_string_equal(box_scan(&box, 0), "G:dir/new");
}

static void layers_folder_moves_by_copy(void **state)
{
    (void)state;
    NEED_BOXES();
    /* As in every overlay without redirects; mv and shutil know what to do. */
    box_says(&box,
             "python3 -c 'import os, errno\n"
             "try: os.rename(\"dir\", \"moved\")\n"
             "except OSError as e: print(errno.errorcode[e.errno])'",
             "EXDEV\n");
    box_says(&box, "mv dir moved; find moved | sort",
             "moved\nmoved/b.txt\nmoved/sub\nmoved/sub/c.txt\n");
    assert_string_equal(box_scan(&box, 0),
                        "G:dir W:moved/b.txt W:moved/sub/c.txt");
    /* Its own folders it can rename; that a name begins anew is said of any
     * folder that came there by a rename. */
    box_run(&box, "mv moved again");
    assert_string_equal(box_scan(&box, 0),
                        "C:again W:again/b.txt W:again/sub/c.txt "
                        "G:moved/b.txt G:moved/sub/c.txt");
}

static void F7_layers_links_and_odd_files_are_told_once(void **state)
{
    (void)state;
    NEED_BOXES();
    box_run(&box, "ln -s /etc/passwd link; mkfifo fifo; "
                  "touch $'odd\\nname' $'bad\\xff'; mkdir $'odd\\tdir'; "
                  "touch $'odd\\tdir/in'");
    assert_string_equal(box_scan(&box, 0),
                        "S:bad\\xff S:fifo S:link S:odd\\x09dir "
                        "S:odd\\x0aname");
    assert_string_equal(box_scan(&box, 0), "");
    box_run(&box, "ln -sf /etc/group link; (echo >fifo &) ; read <fifo");
    assert_string_equal(box_scan(&box, 0), "S:link");
    box_run(&box, "rm a.txt; ln -s run.sh a.txt; rm -r dir; ln -s . dir");
    assert_string_equal(box_scan(&box, 0), "S:a.txt S:dir");
    box_run(&box, "rm a.txt link; echo 1 >a.txt; ln run.sh hard");
    assert_string_equal(box_scan(&box, 0), "W:a.txt W+:hard W+:run.sh");
}

static void F3_layers_sparse_giant_is_told_by_its_size(void **state)
{
    static char page[INIT_REPLY_MAX];
    struct init_reply reply;
    struct init_entry e;

    (void)state;
    NEED_BOXES();
    box_run(&box, "truncate -s 1T giant");
    reply = box_ask(&box, INIT_SCAN, 0, "", NULL, 0, page, NULL);
    assert_int_equal(reply.payload_len, sizeof(e) + 5);
    memcpy(&e, page, sizeof(e));
    assert_int_equal(e.size, (uint64_t)1 << 40);
}

static void layers_closed_folder_counts_as_unchanged(void **state)
{
    (void)state;
    NEED_BOXES();
    box_run(&box, "mkdir own; echo 1 >own/f; echo 2 >>dir/b.txt");
    assert_string_equal(box_scan(&box, 0), "W:dir/b.txt W:own/f");
    box_run(&box, "chmod 000 dir own");
    assert_string_equal(box_scan(&box, 0), "");
    box_run(&box, "chmod 755 dir own; rm dir/b.txt");
    assert_string_equal(box_scan(&box, 0), "G:dir/b.txt");
}

/* After a commit that failed the daemon asks for everything again. */
static void layers_scan_of_all_tells_every_change_again(void **state)
{
    (void)state;
    NEED_BOXES();
    box_run(&box, "echo 1 >own; echo 1 >short; rm a.txt; rm -r dir; "
                  "mkdir dir; echo 1 >dir/x");
    assert_string_equal(box_scan(&box, 0),
                        "G:a.txt C:dir W:dir/x W:own W:short");
    box_run(&box, "rm short dir/x");
    assert_string_equal(box_scan(&box, 0), "G:dir/x G:short");
    assert_string_equal(box_scan(&box, 2), "G:a.txt C:dir W:own G:short");
    assert_string_equal(box_scan(&box, 2), "G:a.txt C:dir W:own G:short");
    assert_string_equal(box_scan(&box, 0), "");
}

static void layers_scan_misses_nothing_written_at_once_after_it(void **state)
{
    (void)state;
    NEED_BOXES();
    for (int i = 0; i < 20; i++) {
        box_run(&box, "printf 1 >tick");
        assert_string_equal(box_scan(&box, 0), "W:tick");
        box_run(&box, "printf 2 >tick"); /* same size, same inode */
        assert_string_equal(box_scan(&box, 0), "W:tick");
    }
}

static void layers_scan_of_many_pages(void **state)
{
    struct warden_limits limits = box_limits();
    struct box b;
    size_t count = 0;

    (void)state;
    NEED_BOXES();
    host("rm -rf many; mkdir -p many/d; cd many/d; touch {1..3000}");
    limits.scratch_inodes = 4000;
    box_open(&b, &limits, "many", NULL);
    box_run(&b, "touch d/{1..3000}; rm -f d/{1..9}");
    for (const char *at = box_scan(&b, 0); *at; at = strchr(at, ' ') + 1) {
        count++;
        if (!strchr(at, ' '))
            break;
    }
    assert_int_equal(count, 3000);
    assert_int_equal(b.cut, 0);
    box_close(&b);
}

/* ---- the daemon's own changes ------------------------------------------- */

static void layers_uploads_are_not_the_sessions_changes(void **state)
{
    (void)state;
    NEED_BOXES();
    assert_int_equal(box_put(&box, "a.txt", "new"), 0);
    assert_int_equal(box_put(&box, "dir/b.txt", "new"), 0);
    assert_int_equal(box_put(&box, "dir/fresh/x", "new"), 0);
    assert_int_equal(box_put(&box, "far/away/x", "new"), 0);
    assert_int_equal(box_remove(&box, "dir/sub/c.txt"), 0);
    assert_int_equal(box_remove(&box, "far/away/x"), 0);
    box_says(&box, "cat a.txt dir/b.txt dir/fresh/x; find . -type f | sort",
             "newnewnew./a.txt\n./dir/b.txt\n./dir/fresh/x\n./run.sh\n");
    assert_string_equal(box_scan(&box, 0), "");
    box_run(&box, "printf x >>a.txt; rm dir/fresh/x");
    assert_string_equal(box_scan(&box, 0), "W:a.txt G:dir/fresh/x");
    assert_int_equal(box_put(&box, "dir", "new"), EISDIR);
    assert_int_equal(box_put(&box, "run.sh/x", "new"), ENOTDIR);
}

/* An upload must not hide what the session did before anyone looked. */
static void layers_upload_into_what_was_just_deleted(void **state)
{
    (void)state;
    NEED_BOXES();
    box_run(&box, "rm -r dir");
    assert_int_equal(box_put(&box, "dir/up", "new"), 0);
    assert_string_equal(box_scan(&box, 0), "C:dir W:dir/up");
    box_run(&box, "rm -r dir");
    assert_string_equal(box_scan(&box, 0), "G:dir");
    assert_int_equal(box_put(&box, "dir/up", "new"), 0); /* told before */
    assert_string_equal(box_scan(&box, 0), "");
    box_run(&box, "rm -r dir; mkdir dir; echo 1 >dir/x");
    assert_int_equal(box_put(&box, "dir/up", "newer"), 0);
    assert_string_equal(box_scan(&box, 0), "W:dir/x");
}

static void layers_folder_removed_by_the_daemon_keeps_deletions(void **state)
{
    (void)state;
    NEED_BOXES();
    box_run(&box, "rm dir/sub/c.txt");
    assert_int_equal(box_remove(&box, "dir/sub"), 0);
    assert_string_equal(box_scan(&box, 0), "G:dir/sub");
}

/* ---- two layers --------------------------------------------------------- */

/* Made by the service user, without a right of root: mknod of 0:0 and
 * attributes of its own files are anybody's. */
static void layers_stack_with_deletions_between(void **state)
{
    struct warden_limits limits = box_limits();
    struct box b;

    (void)state;
    NEED_BOXES();
    host(WORKSPACE
         "python3 -c 'import os, stat\n"
         "os.mknod(\"top/a.txt\", 0o600 | stat.S_IFCHR, 0)\n"
         "os.mkdir(\"top/dir\")\n"
         "os.setxattr(\"top/dir\", \"user.overlay.opaque\", b\"y\")\n"
         "open(\"top/dir/n.txt\", \"w\").write(\"new\")'");
    box_open(&b, &limits, "top", "base");
    box_says(&b, "find . -type f -o -type c | sort",
             "./dir/n.txt\n./run.sh\n");
    box_run(&b, "echo 1 >a.txt; echo 1 >dir/b.txt; echo 1 >>dir/n.txt");
    assert_string_equal(box_scan(&b, 0), "W:a.txt W:dir/b.txt W:dir/n.txt");
    box_run(&b, "rm -r dir run.sh a.txt");
    assert_string_equal(box_scan(&b, 0), "G:a.txt G:dir G:run.sh");
    box_close(&b);
}

/* ---- caps --------------------------------------------------------------- */

static void R4_layers_do_not_change_the_caps(void **state)
{
    static const char fill[] =
        "n=0; while touch f$n 2>/dev/null; do n=$((n+1)); done; echo $n; "
        "rm -f f*; head -c 100M /dev/zero >big 2>/dev/null; stat -c %s big; "
        "touch x 2>&1; rm -f big x";
    struct warden_limits limits = box_limits();
    long files[3], bytes[3];

    (void)state;
    NEED_BOXES();
    limits.scratch_bytes = 8 * MIB;
    limits.scratch_inodes = 200;
    host(WORKSPACE);
    for (int layers = 0; layers < 3; layers++) {
        struct box b;

        box_open(&b, &limits, layers ? "base" : NULL,
                 layers > 1 ? "top" : NULL);
        box_run(&b, fill);
        assert_int_equal(
            sscanf(b.out, "%ld\n%ld", &files[layers], &bytes[layers]), 2);
        /* Granted in full, and no more than rounding on top. */
        assert_in_range(files[layers], 200, 232);
        assert_in_range(bytes[layers], 8 * MIB - 65536, 8 * MIB + 262144);
        box_run(&b, "echo 1 >fine");
        (void)box_scan(&b, 0);
        assert_in_range(b.free_bytes, 7 * MIB, 9 * MIB);
        assert_in_range(b.free_inodes, 180, 232);
        box_close(&b);
    }
}

static void R4_layers_copy_up_of_what_does_not_fit_fails_whole(void **state)
{
    struct warden_limits limits = box_limits();
    struct box b;

    (void)state;
    NEED_BOXES();
    limits.scratch_bytes = 8 * MIB;
    host("rm -rf base; mkdir base; head -c 20M /dev/zero >base/big");
    box_open(&b, &limits, "base", NULL);
    assert_int_not_equal(box_try(&b, "echo x >>big"), 0);
    assert_non_null(strstr(b.out, "No space left on device"));
    box_says(&b, "stat -c %s big; rm big; ls", "20971520\n");
    assert_string_equal(box_scan(&b, 0), "G:big");
    box_close(&b);
}

/* ---- nothing reaches the files themselves ------------------------------- */

static void stat_blobs(struct stat st[4])
{
    for (int i = 0; i < 4; i++) {
        char path[32];

        (void)snprintf(path, sizeof(path), "blobs/%d", i + 1);
        assert_int_equal(fstatat(boxes.dir_fd, path, &st[i], 0), 0);
    }
}

static void F1_layers_blobs_are_untouched_whatever_happens(void **state)
{
    struct stat before[4], after[4];

    (void)state;
    NEED_BOXES();
    stat_blobs(before);
    box_run(&box, "cat a.txt dir/b.txt >/dev/null; ./run.sh; echo x >>a.txt; "
                  "chmod 777 dir/b.txt; touch -d 2001-01-01 dir/sub/c.txt; "
                  "ln a.txt hard; mv run.sh moved.sh; "
                  "python3 -c 'import os\n"
                  "os.setxattr(\"dir/b.txt\", \"user.x\", b\"1\")\n"
                  "os.chown(\"dir/b.txt\", 1000, 1000)\n"
                  "f = os.open(\"dir/sub/c.txt\", os.O_RDWR)\n"
                  "import mmap; m = mmap.mmap(f, 6); m[0:5] = b\"TTTTT\"; "
                  "m.flush()'; rm -rf -- *");
    stat_blobs(after);
    for (int i = 0; i < 4; i++) {
        assert_memory_equal(&before[i].st_ctim, &after[i].st_ctim,
                            sizeof(struct timespec));
        assert_memory_equal(&before[i].st_mtim, &after[i].st_mtim,
                            sizeof(struct timespec));
        assert_memory_equal(&before[i].st_atim, &after[i].st_atim,
                            sizeof(struct timespec));
        assert_int_equal(before[i].st_size, after[i].st_size);
        assert_int_equal(before[i].st_mode, after[i].st_mode);
        assert_int_equal(before[i].st_nlink, after[i].st_nlink);
    }
    host("test \"$(cat blobs/1 blobs/2 blobs/3)\" = $'one\\ntwo\\nthree'; "
         "test $(find base -type f | wc -l) = 4");
}

static void C1_layers_and_scratch_are_out_of_reach(void **state)
{
    (void)state;
    NEED_BOXES();
    box_says(
        &box,
        "ls -A /run; ls -d /run/* /mnt/*; "
        "grep -c ' /run/\\(scratch\\|layer\\)' /proc/self/mounts; "
        "true",
        "glovebox\n/mnt/data\n/run/glovebox\n0\n"); /* the shell's state */
    /* Nor can it be had by asking the kernel. */
    box_says(&box,
             "for way in 'mount -o remount,rw /mnt/data' "
             "'mount --bind / /mnt/data' 'umount /mnt/data' "
             "'unshare -m true' 'unshare -U true' 'nsenter -t 1 -m true'; do "
             "$way 2>/dev/null && echo \"$way\"; done; true",
             "");
    box_says(&box, "stat -f -c %T /mnt/data; cd /mnt/data/..; ls",
             "overlayfs\ndata\n");
}

static void C5_layers_raw_folder_is_pid_1s_alone(void **state)
{
    (void)state;
    NEED_BOXES();
    box_run(&box, "rm a.txt"); /* a mark that only the raw folder shows */
    box_says(
        &box,
        "python3 -c 'import os\n"
        "def attempt(what, *way):\n"
        "    try: print(what.__name__, way, what(*way))\n"
        "    except OSError as e: pass\n"
        "for n in range(16):\n"
        "    path = \"/proc/1/fd/%d\" % n\n"
        "    attempt(os.open, path, os.O_RDONLY)\n"
        "    attempt(os.open, path, os.O_PATH)\n"
        "    attempt(os.listdir, path)\n"
        "    attempt(os.readlink, path)\n"
        "    attempt(os.stat, path + \"/../work\")\n"
        "attempt(os.listdir, \"/proc/1/fd\")\n"
        "attempt(os.listdir, \"/proc/1/cwd\")\n"
        "attempt(os.listdir, \"/proc/1/root\")\n"
        "attempt(os.listdir, \"/proc/1/map_files\")\n"
        "for n in os.listdir(\"/proc/self/fd\"):\n"
        "    if int(n) > 2: attempt(os.readlink, \"/proc/self/fd/\" + n)'",
        "");
    box_cell(&box,
             "import os\n"
             "for n in os.listdir('/proc/self/fd'):\n"
             "    try: to = os.readlink('/proc/self/fd/' + n)\n"
             "    except OSError: continue\n"
             "    if not to.startswith(('pipe:', 'socket:', '/dev/null')): "
             "print(n, to)\n"
             "print(os.getcwd(), sorted(os.listdir()))\n");
    assert_string_equal(box.out, "/mnt/data ['dir', 'run.sh']\n");
}

static void F7_layers_marks_cannot_be_made_from_inside(void **state)
{
    (void)state;
    NEED_BOXES();
    box_says(
        &box,
        "mkdir own; echo 1 >own/f; python3 -c 'import ctypes, os, stat\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "def attempt(what, *way):\n"
        "    try: print(what.__name__, way, what(*way))\n"
        "    except OSError as e: pass\n"
        "for dev in (0, os.makedev(1, 3), os.makedev(7, 0)):\n"
        "    attempt(os.mknod, \"c\", 0o666 | stat.S_IFCHR, dev)\n"
        "    attempt(os.mknod, \"b\", 0o666 | stat.S_IFBLK, dev)\n"
        "for flags in (4, 5, 6):\n" /* RENAME_WHITEOUT */
        "    if libc.renameat2(-100, b\"own/f\", -100, b\"own/g\", flags) == 0:"
        " print(flags)\n"
        "for name in (\"opaque\", \"whiteout\", \"redirect\", \"metacopy\", "
        "\"origin\", \"impure\", \"upper\"):\n"
        "    for kind in (\"user\", \"trusted\"):\n"
        "        full = \"%s.overlay.%s\" % (kind, name)\n"
        "        for path in (\".\", \"own\", \"dir\", \"own/f\"):\n"
        "            try: os.setxattr(path, full, b\"y\")\n"
        "            except OSError: continue\n"
        /* A kernel that lets it be set stores it under another name. */
        "'; ls; cat a.txt own/f; ls dir",
        "a.txt\ndir\nown\nrun.sh\none\n1\nb.txt\nsub\n");
    assert_string_equal(box_scan(&box, 0), "W:own/f");
    box_says(&box, "cat dir/b.txt dir/sub/c.txt own/f", "two\nthree\n1\n");
}

/* Names that look like marks to other overlays are names. */
static void F7_layers_names_of_marks_are_names(void **state)
{
    (void)state;
    NEED_BOXES();
    box_run(&box, "touch .wh.a.txt .wh..wh..opq dir/.wh.b.txt work upper");
    assert_string_equal(box_scan(&box, 0),
                        "W:.wh..wh..opq W:.wh.a.txt W:dir/.wh.b.txt W:upper "
                        "W:work");
}

/* Without layers there is no overlay between the session and the raw folder:
 * marks it makes there mean nothing. */
static void F7_marks_without_layers_mean_nothing(void **state)
{
    struct warden_limits limits = box_limits();
    struct box b;

    (void)state;
    NEED_BOXES();
    box_open(&b, &limits, NULL, NULL);
    box_run(&b, "mkdir d; echo 1 >d/f; echo 1 >g");
    assert_string_equal(box_scan(&b, 0), "W:d/f W:g");
    box_run(&b, "python3 -c 'import ctypes, os, stat\n"
                "os.setxattr(\"d\", \"user.overlay.opaque\", b\"y\")\n"
                "libc = ctypes.CDLL(None)\n"
                "libc.renameat2(-100, b\"g\", -100, b\"h\", 4)\n"
                "try: os.mknod(\"i\", 0o666 | stat.S_IFCHR, 0)\n"
                "except OSError: pass'; rm -f g i; [ -e h ] || echo >h");
    assert_string_equal(box_scan(&b, 0), "G:g W:h");
    box_close(&b);
}

/* ---- what the warden takes ---------------------------------------------- */

static void C3_layers_that_are_not_the_services_are_refused(void **state)
{
    struct warden_limits limits = box_limits();
    struct error err = {0};
    int layers[WARDEN_LAYERS_MAX + 1] = {-1, -1, -1};
    struct box b;

    (void)state;
    NEED_BOXES();
    host(WORKSPACE);
    layers[0] = layer_open("base");
    layers[1] = open("/etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(box_spawn(&b, &limits, layers, 2, &err), -ERR_INVALID);
    fd_close(&layers[1]);
    layers[1] = openat(boxes.dir_fd, "blobs/1", O_RDONLY | O_CLOEXEC);
    assert_int_equal(box_spawn(&b, &limits, layers, 2, &err), -ERR_INVALID);
    assert_int_equal(box_spawn(&b, &limits, layers, 3, &err), -ERR_INVALID);
    fd_close(&layers[1]);
    layers[1] = openat(boxes.dir_fd, "scratch", O_PATH | O_CLOEXEC);
    assert_int_equal(box_spawn(&b, &limits, layers, 2, &err), -ERR_INVALID);
    fd_close(&layers[1]);
    fd_close(&layers[0]);
    assert_true(warden_call_alive(&boxes.link));
}

/* The slot's number comes again only when all of it is gone. */
static void R7_layers_leave_nothing_behind(void **state)
{
    struct warden_limits limits = box_limits();
    struct error err = {0};
    struct warden_status status = {0};
    uint64_t deadline = clock_mono_ms() + 5000;
    struct box b;

    (void)state;
    NEED_BOXES();
    host(WORKSPACE);
    box_open(&b, &limits, "top", "base");
    box_run(&b,
            "exec >/dev/null 2>&1; sleep 1000 <a.txt & cd dir; sleep 1000 &");
    box_close(&b);
    do {
        (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        assert_int_equal(warden_call_status(&boxes.link, &status, &err), 0);
    } while (status.slots && clock_left_ms(deadline) > 0);
    assert_int_equal(status.slots, 0);
}

#define IN_BOX(test) cmocka_unit_test_setup_teardown(test, make_box, drop_box)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_BOX(layers_show_the_files_as_the_sessions_own),
        cmocka_unit_test(layers_are_not_needed),
        IN_BOX(layers_files_can_be_edited_in_place),
        IN_BOX(layers_files_can_be_renamed_and_deleted),
        IN_BOX(layers_folder_and_file_change_places),
        IN_BOX(layers_folder_made_anew_is_cleared),
        IN_BOX(layers_folder_moves_by_copy),
        IN_BOX(F7_layers_links_and_odd_files_are_told_once),
        IN_BOX(F3_layers_sparse_giant_is_told_by_its_size),
        IN_BOX(layers_closed_folder_counts_as_unchanged),
        IN_BOX(layers_scan_of_all_tells_every_change_again),
        IN_BOX(layers_scan_misses_nothing_written_at_once_after_it),
        cmocka_unit_test(layers_scan_of_many_pages),
        IN_BOX(layers_uploads_are_not_the_sessions_changes),
        IN_BOX(layers_upload_into_what_was_just_deleted),
        IN_BOX(layers_folder_removed_by_the_daemon_keeps_deletions),
        cmocka_unit_test(layers_stack_with_deletions_between),
        cmocka_unit_test(R4_layers_do_not_change_the_caps),
        cmocka_unit_test(R4_layers_copy_up_of_what_does_not_fit_fails_whole),
        IN_BOX(F1_layers_blobs_are_untouched_whatever_happens),
        IN_BOX(C1_layers_and_scratch_are_out_of_reach),
        IN_BOX(C5_layers_raw_folder_is_pid_1s_alone),
        IN_BOX(F7_layers_marks_cannot_be_made_from_inside),
        IN_BOX(F7_layers_names_of_marks_are_names),
        cmocka_unit_test(F7_marks_without_layers_mean_nothing),
        cmocka_unit_test(C3_layers_that_are_not_the_services_are_refused),
        cmocka_unit_test(R7_layers_leave_nothing_behind),
    };

    return cmocka_run_group_tests_name("layers", tests, boxes_start,
                                       boxes_stop);
}
