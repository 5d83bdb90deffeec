OPENQASM 3.0;
include "stdgates.inc";
input float[64] theta_0;
qubit[1] q;
ry(theta_0) q[0];
