/* cli/patience.h - threads that leave the processor to others while they wait. */
#ifndef OLE_CLI_PATIENCE_H
#define OLE_CLI_PATIENCE_H

/* First thing in main(), before there are threads: starts the program once more where its threads
 * would spin for too long. */
void be_patient(char **argv);

#endif
