#include "launcher/cli.h"
#include "launcher/env.h"

int main(int argc, char** argv) {
  trireme::restart_with_short_spins(argv);
  return trireme::run_command_line(argc, argv);
}
