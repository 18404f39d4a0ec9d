/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox: the command line client, run by a person or a script under their
 * own account. It holds no privilege and opens no listening socket; `serve`
 * replaces it by gloveboxd. See cli/cli.h.
 */
#include <locale.h>

#include "cli/cli.h"

int main(int argc, char **argv)
{
    (void)setlocale(LC_CTYPE, ""); /* readline's idea of a character */
    return cli_main(argc, argv);
}
