OPENQASM 3.0;
include "stdgates.inc";
input float[64] phi_0;
qubit[1] q;
ry(phi_0) q[0];
