OPENQASM 3.0;
include "stdgates.inc";
input float[64] theta_0;
input float[64] theta_1;
qubit[2] q;
ry(theta_0) q[0];
ry(theta_1) q[1];
