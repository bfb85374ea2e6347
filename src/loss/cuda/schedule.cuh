/*
 * src/loss/cuda/schedule.cuh - the steps of the matrix iterations of iterate.cu: odd polynomials
 * a x + b x^3 + c x^5, one after the other, that bring every σ of (limit, 1] to 1 and smaller ones
 * up as far as they can.
 *
 * Each is the best approximation of 1 (in the largest error) on the interval that the one before it
 * left, the interval's lower end never taken under 0.03 of its upper one: a polynomial for a wider
 * interval would grow small σ faster, but throws some of the large ones down near its lower end,
 * and they would lose as many digits.  Three tables are run in rounds with a check of the result
 * between them: features of a network in training are done after the first, and after the second
 * what has converged is over the default threshold of float32.
 */
#ifndef OLE_SRC_LOSS_CUDA_SCHEDULE_CUH
#define OLE_SRC_LOSS_CUDA_SCHEDULE_CUH

struct Quintic {
    double a, b, c;
};

enum { FIRST_STEPS = 8, SECOND_STEPS = 6, LATER_STEPS = 12, MAX_ROUNDS = 4 };

/* For σ from 1e-3 to 1. */
__constant__ const Quintic FIRST[FIRST_STEPS] = {
    {7.3625277580277935, -20.743395646172168, 15.16055175868458},
    {4.1369862816102119, -3.6800291405199808, 0.84918181529138737},
    {4.1369862816102119, -3.6800291405199808, 0.84918181529138737},
    {3.4950377277244327, -2.8870301791136668, 0.65081731046526647},
    {2.310821319881712, -1.678013462650964, 0.41979233653958165},
    {1.8923492692826371, -1.2691447860150757, 0.37691957541882171},
    {1.8750017821138059, -1.2500019801103162, 0.37500019799784895},
    {1.8749999974260261, -1.2499999948520522, 0.37499999742602608},
};

/* For σ from 0.02 to 1. */
__constant__ const Quintic SECOND[SECOND_STEPS] = {
    {7.3625277580277935, -20.743395646172168, 15.16055175868458},
    {3.3446473550179712, -2.7025008611139878, 0.60479663997115973},
    {2.223398400433223, -1.598683988554823, 0.41125064686200791},
    {1.8845786762712071, -1.2606022866041688, 0.37606180048537602},
    {1.8739943028195807, -1.2479896843015454, 0.37399538109634162},
    {1.875, -1.25, 0.375},
};

/* For σ from 2.6e-6 to 1. */
__constant__ const Quintic LATER[LATER_STEPS] = {
    {7.3625277580277935, -20.743395646172168, 15.16055175868458},
    {4.1369862816102119, -3.6800291405199808, 0.84918181529138737},
    {4.1369862816102119, -3.6800291405199808, 0.84918181529138737},
    {4.1369862816102119, -3.6800291405199808, 0.84918181529138737},
    {4.1369862816102119, -3.6800291405199808, 0.84918181529138737},
    {4.1369862816102119, -3.6800291405199808, 0.84918181529138737},
    {4.1369862816102119, -3.6800291405199808, 0.84918181529138737},
    {3.7339981597690608, -3.1813373221821455, 0.72433896247474461},
    {2.4856372185235669, -1.83046174544508, 0.43641585788921528},
    {1.9169690320537947, -1.2958816817611274, 0.37961694147634556},
    {1.8750242636345329, -1.2500269593301203, 0.37500269594366736},
    {1.8749998706934572, -1.2499997413869324, 0.37499987069347507},
};

/* Every σ was over this share of the bound when round r ends with all of them at 1. */
__constant__ const double REACHED[MAX_ROUNDS] = {7.8e-4, 2.18e-6, 8e-13, 3e-19};

/* Y Y^T is the identity when no entry is further off. */
constexpr double CONVERGED = 1e-11;

/* The smallest σ that has converged is sure to be kept if the threshold is under this many times
 * what was reached (the promise of the gradient leaves a factor 4). */
constexpr double MARGIN = 3.5;

#endif
