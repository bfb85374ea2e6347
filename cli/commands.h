/* cli/commands.h - the commands of the program, one file each. */
#ifndef OLE_CLI_COMMANDS_H
#define OLE_CLI_COMMANDS_H

/* A command returns the exit code. argv[0] is its name. */
int run_score(int argc, char **argv);
int run_analyze(int argc, char **argv);
int run_tsne(int argc, char **argv);
int run_demo(int argc, char **argv);
int run_info(int argc, char **argv);
int run_net(int argc, char **argv);
int run_train(int argc, char **argv);
int run_tune(int argc, char **argv);
int run_sweep(int argc, char **argv);
int run_reproduce(int argc, char **argv);
int run_eval(int argc, char **argv);
int run_predict(int argc, char **argv);
int run_report(int argc, char **argv);
int run_novelty(int argc, char **argv);
int run_verify(int argc, char **argv);
int run_features(int argc, char **argv);
int run_export(int argc, char **argv);
int run_bench(int argc, char **argv);
int run_data(int argc, char **argv);

extern const char score_summary[];
extern const char analyze_summary[];
extern const char tsne_summary[];
extern const char demo_summary[];
extern const char info_summary[];
extern const char net_summary[];
extern const char train_summary[];
extern const char tune_summary[];
extern const char sweep_summary[];
extern const char reproduce_summary[];
extern const char eval_summary[];
extern const char predict_summary[];
extern const char report_summary[];
extern const char novelty_summary[];
extern const char verify_summary[];
extern const char features_summary[];
extern const char export_summary[];
extern const char bench_summary[];
extern const char data_summary[];

#endif
