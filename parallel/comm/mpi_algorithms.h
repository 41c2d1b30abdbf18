// The algorithms by which the MPI library sums, where its own choice is slow.
#pragma once

namespace trireme {

/// Open MPI 4.1 sums in place over a binomial tree: all of a buffer passes through one rank, log N times, and
/// nothing overlaps. Between four hosts at 100 Mbit/s that took three times as long as Rabenseifner's
/// algorithm, which sends the minimum from every rank, and which this asks for. What a user has chosen
/// (OMPI_MCA_coll_libnbc_iallreduce_algorithm, --mca) stays; other libraries are left alone. Between MPI_Init
/// and MPI_Finalize, with the same result on all ranks.
void choose_mpi_algorithms();

}  // namespace trireme
