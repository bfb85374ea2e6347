/*
 * tests/unit/comma_locale.h - a locale that writes 0,5, as programs around the library may set it.
 *
 * Machines that build seldom have one installed, so localedef makes it (Debian: libc-bin, with the
 * character maps of locales).
 */
#ifndef OLE_TESTS_UNIT_COMMA_LOCALE_H
#define OLE_TESTS_UNIT_COMMA_LOCALE_H

#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Sets it for the whole process; false where it cannot be. setlocale(LC_ALL, "C") ends it. */
static inline bool comma_locale_set(void) {
    static const char source[] = "LC_NUMERIC\\ndecimal_point \"<U002C>\"\\nthousands_sep \"\"\\n"
                                 "grouping -1\\nEND LC_NUMERIC\\n";
    char dir[] = "/tmp/ole-locale-XXXXXX", command[400];
    if (!mkdtemp(dir)) return false;
    snprintf(command, sizeof command,
             "cd %s && printf '%s' >source && localedef -c -i source ./comma >messages 2>&1; true",
             dir, source);
    bool set = system(command) == 0 && setenv("LOCPATH", dir, 1) == 0 &&
               setlocale(LC_NUMERIC, "comma") != NULL;
    unsetenv("LOCPATH");
    snprintf(command, sizeof command, "rm -r %s", dir);
    return system(command) == 0 && set;
}

#endif
