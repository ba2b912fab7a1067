"""A point source in a waveguide of two dimensions, and the flux behind it."""

import meep as mp

cell = mp.Vector3(8, 4)
guide = [mp.Block(mp.Vector3(mp.inf, 1), material=mp.Medium(epsilon=12))]
source = [mp.Source(mp.GaussianSource(0.15, fwidth=0.1), component=mp.Ez, center=mp.Vector3(-3))]
simulation = mp.Simulation(cell_size=cell, boundary_layers=[mp.PML(1.0)], geometry=guide, sources=source, resolution=8)
flux = simulation.add_flux(0.15, 0, 1, mp.FluxRegion(center=mp.Vector3(2), size=mp.Vector3(0, 2)))
simulation.run(until=40)
print(f"flux {mp.get_fluxes(flux)[0]:.6e}")
