/* cli/common/guard.h - signals that would end the program without a word. */
#ifndef OLE_CLI_COMMON_GUARD_H
#define OLE_CLI_COMMON_GUARD_H

/*
 * From here on a write over the limit on the size of files fails like any other, and reading a
 * mapped file that was cut off since it was opened ends the program with a message and EXIT_FAILED.
 */
void guard_signals(void);

#endif
