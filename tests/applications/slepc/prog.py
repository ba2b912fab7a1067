"""The largest eigenvalues of a Laplacian of one dimension."""

from petsc4py import PETSc
from slepc4py import SLEPc

size = 60
matrix = PETSc.Mat().createAIJ([size, size], nnz=3)
first, end = matrix.getOwnershipRange()
for row in range(first, end):
    matrix[row, row] = 2.0
    if row > 0:
        matrix[row, row - 1] = -1.0
    if row < size - 1:
        matrix[row, row + 1] = -1.0
matrix.assemble()
problem = SLEPc.EPS().create()
problem.setOperators(matrix)
problem.setProblemType(SLEPc.EPS.ProblemType.HEP)
problem.setDimensions(2)
problem.solve()
PETSc.Sys.Print(" ".join(f"{problem.getEigenvalue(i).real:.6f}" for i in range(2)))
