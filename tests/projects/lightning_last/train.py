import time, torch, lightning as L
from lightning.pytorch.callbacks import ModelCheckpoint
class Net(L.LightningModule):
    def __init__(self): super().__init__(); self.m = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    def training_step(self, b, i): time.sleep(0.005); loss = ((self.m(b[0]) - b[0].sum(1, keepdim=True)) ** 2).mean(); self.log("loss", loss, prog_bar=True); return loss
    def configure_optimizers(self): return torch.optim.Adam(self.parameters(), 1e-3)
def main():
    L.seed_everything(1)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(3200, 16)), batch_size=32)
    trainer = L.Trainer(max_epochs=25, accelerator="gpu", devices=1, callbacks=[ModelCheckpoint("ckpts", save_last=True, every_n_epochs=1)], logger=False)
    trainer.fit(Net(), data, ckpt_path="last")
    trainer.save_checkpoint("final.ckpt")
if __name__ == "__main__": main()
